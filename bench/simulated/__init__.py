"""The extender as a process beside a simulated Slurm and a simulated API server in another one, on sockets of loopback.

For what no lab of this size has: thousands of nodes and tens of thousands of jobs. Here live that crowd, the process
that is measured, and one module for each group of figures.
"""
