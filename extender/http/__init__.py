"""HTTP servers: kube-scheduler's extender protocol, hooks for scripts, health, metrics and debugging.

A route parses the request, calls the engine, and answers from memory. No scheduling route waits for Slurm.
"""
