"""A job of ours in Slurm: what is asked of it, how it is known as ours, and what it can follow of its Pods' wishes."""
