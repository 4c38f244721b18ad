"""Handle the Pods that Slurm places: their requests, their annotations, and the messages about them."""
