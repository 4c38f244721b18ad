"""Gangs: Pods that start together or not at all, their order, and the moment when all of them may be bound.

Pure values and functions. `recognition` decides to which gang a Pod belongs, `completeness` whether its Pods exist,
`agreement` what they ask of Slurm together, `layout` which Pod gets which slot, `votes` when all are bound.
"""
