"""Watches and polls turned into events for the engine.

Here live the loops that notice what changed (Pods, jobs) and say so. They decide nothing about a placeholder. What is
about nodes is in `nodes`, what is about Pods that Slurm did not place in `foreign_pods`.
"""
