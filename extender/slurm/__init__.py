"""The Slurm adapter: how the extender's decisions become slurmrestd requests, and slurmctld's answers become facts.

It implements ports with `slurmclient`; it knows nothing of Kubernetes and takes no decision.
"""
