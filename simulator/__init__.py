"""Simulate a whole cluster in one process: slurmrestd and an API server, both reached through their HTTP interfaces.

`slurm`, `kube` and `network` are the parts of a cluster, `cluster` assembles them, `replicas` runs extenders in it.
`runner` executes one seed: `actors` create load, `faults` are injected, `invariants` are checked. `demo` shows a
cluster on a terminal. Only tests and the command line import this package.
"""
