"""Pods that Slurm did not place, and the jobs that hold their part of a node."""
