"""Reconcile Kubernetes Nodes and Slurm nodes in both directions.

`controller` reads both and maps them. The other controllers request a drain hold or its end from it, each for one
drain reason; `drains` executes these requests. `marks` writes conditions, taints and annotations on Nodes;
`external_nodes` registers Nodes in Slurm.
"""
