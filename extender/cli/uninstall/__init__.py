"""`slurm-extender uninstall`: give back all that the extender took: gates, jobs, marks on Nodes, Slurm nodes, drains.

Every object is read anew and nothing is remembered, so the command is idempotent: run it again to resume. What cannot
be decided is left as it is and reported. `command` is the entry point, `hand_back` one run; one file for each kind of
object.
"""
