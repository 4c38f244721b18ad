"""A whole cluster in one process: slurmrestd and an API server that are spoken to through their HTTP surfaces.

Imported by tests and by the command line alone.
"""
