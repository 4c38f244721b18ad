"""The HTTP face: kube-scheduler's extender protocol, hooks for scripts, health, metrics and debugging.

Routes parse, ask the engine, and answer from memory. No route of the scheduler's waits for Slurm.
"""
