"""What Slurm is to do with a node, and what its Node is to say of it.

`machine` is the one that drains a node while somebody has a reason to; the reasons come from `causes`, `removals` and
others. `marks` goes the other way: what is written on Nodes. `external_nodes` are those that Slurm has through us
alone.
"""
