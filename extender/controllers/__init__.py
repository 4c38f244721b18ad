"""Watches and polls turned into events for the engine.

Here live the loops that notice what changed (Pods, jobs, nodes) and say so. They decide nothing about a placeholder.
"""
