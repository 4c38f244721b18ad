"""Who works in the simulated cluster: authors of Pods, operators, other users of Slurm, owners of machines."""
