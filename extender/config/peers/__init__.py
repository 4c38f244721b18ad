"""Converts configurations of SUNK and slurm-bridge: `slurm-extender import-config`.

What has no counterpart is a note with its key and the reason. What comes out is always a configuration that is good.
"""
