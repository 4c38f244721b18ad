"""Requests to Slurm and its answers, the same for every API version: frozen dataclasses, no I/O, no wire names.

`wire/` translates between these and JSON. A field that Slurm did not send is None, an empty text or an empty tuple.
"""
