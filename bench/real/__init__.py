"""Measurements on the real parts: stock Kubernetes, stock Slurm, the extender as a process, the load beside them.

Here live the fleet, the load, the floors and one module for each group of figures. Rounds of ours and of the floors
alternate, so that what else the machine does meets both.
"""
