"""Hold what the engine knows of Slurm jobs: whose they are, what was read of them last, and which are missing."""
