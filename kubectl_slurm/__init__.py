"""`kubectl slurm`: show users and administrators the state of Pods that Slurm places.

The plugin is a program of its own that needs access to the API server only. It asks the extender's `/debug` for the
rest if that can be reached.
"""
