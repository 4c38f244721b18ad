"""A whole cluster in one process: slurmrestd and an API server that are spoken to through their HTTP surfaces.

`slurm`, `kube` and `network` are what the cluster is made of, `cluster` puts one together, `process` and `keeper` are
lives of the extender in it. `simulate` is one run: `people` work, `trouble` comes, `promises` are held. `demo` shows
it. Imported by tests and by the command line alone.
"""
