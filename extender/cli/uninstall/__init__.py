"""Hands everything back that the extender has taken: gates, jobs, marks on Nodes, nodes in Slurm, drains.

Everything is looked at anew and nothing is remembered, so a run that broke off in the middle is gone on with by the
next. What cannot be told is left as it is, and said. `hand_back` is one run; one file for each kind of thing.
"""
