"""Nodes of both sides: what Kubernetes says of them for Slurm, and what Slurm says of them for Kubernetes.

`controller` looks at both and maps them; the others ask it to hold a node, or to let it go, each for one reason, and
`drains` carries that out. `marks` and `external_nodes` go the other two ways: onto Nodes, and into Slurm's own list.
"""
