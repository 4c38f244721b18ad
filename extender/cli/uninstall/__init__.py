"""`slurm-extender uninstall`: remove everything the extender created: gates, jobs, marks on Nodes, Slurm nodes, drains.

The command reads every object again and stores nothing, so it is idempotent: run it again to resume. It leaves and
reports what it cannot decide. `command` is the entry point, `removal` one run; there is a file for each kind of object.
"""
