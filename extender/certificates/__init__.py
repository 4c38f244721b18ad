"""`slurm-extender generate certificates`: makes and renews those between kube-scheduler, the replicas and the API server.

`plan` decides and is pure but for fresh keys; `secrets` and `folder` keep what it decides; `renewal` carries it out.
Nothing that serves imports this package: it alone needs the cryptography package.
"""
