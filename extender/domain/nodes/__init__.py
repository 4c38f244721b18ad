"""Decide about drains of Slurm nodes, marks on Nodes, and the registration of Nodes as external nodes.

`machine` drains a node while there is a drain reason; the reasons come from `causes`, `removals` and others. `marks` is
the other direction: conditions, taints and cordons of Nodes. `external_nodes` are nodes that the extender registers.
"""
