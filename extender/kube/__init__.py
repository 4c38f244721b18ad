"""The Kubernetes adapter: how the extender reads and writes API objects.

Here live the connection (the one file that imports the kubernetes package), lists and watches, the stores they fill,
and the writes. It implements ports; it knows nothing of Slurm and takes no decision.
"""
