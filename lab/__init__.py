"""The real components on one machine: builds, runs and stops stock Kubernetes and stock Slurm for tests and demos.

Nothing here is shipped: ``extender`` and ``slurmclient`` never import ``lab``.
"""
