"""Reserve in Slurm, by jobs, the resources of Pods that Slurm did not place (docs/nodes.md).

`controller` keeps a `record` for each Pod, `requests` sends requests to Slurm, `shortages` drains nodes without room.
"""
