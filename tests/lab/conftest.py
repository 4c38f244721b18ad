"""Clusters of the lab for its own tests."""

from lab.fixtures import kubernetes, slurm, slurm_24_11, slurm_26_05, slurm_external, slurm_mixed

__all__ = ["kubernetes", "slurm", "slurm_24_11", "slurm_26_05", "slurm_external", "slurm_mixed"]
