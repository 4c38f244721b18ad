"""Pods that Slurm did not place, on nodes that it gives away (docs/foreign-pods.md): held in Slurm by jobs of ours.

`controller` keeps a `record` for each, `requests` asks Slurm, `shortages` keeps Slurm off nodes without room for one.
"""
