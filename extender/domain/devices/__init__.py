"""Transfer the devices that Slurm allocated into ResourceClaims (dynamic resource allocation).

Slurm names a device by a number on its node, Kubernetes by driver, pool and name. A line of the configuration maps one
to the other. Everything here is pure: views in, decisions out.
"""
