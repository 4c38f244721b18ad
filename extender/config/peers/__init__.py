"""Configurations of SUNK and of slurm-bridge, said as ours: `slurm-extender import-config`.

What has no counterpart is a note with its key and the reason. What comes out is always a configuration that is good.
"""
