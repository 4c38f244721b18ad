"""`slurm-extender generate certificates`: renews those of kube-scheduler, replicas and API server.

`plan` decides and is pure but for fresh keys; `secrets` and `folder` keep what it decides; `renewal` carries it out.
Nothing that serves imports this package: it alone needs the cryptography package.
"""
