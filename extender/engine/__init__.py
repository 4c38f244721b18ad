"""The engine: owns every placeholder, is the one writer of each, and carries commands out.

Here live the records, the lanes in which commands wait their turn, the translation of each command into calls of the
ports, and the history of each workload. Events come in through `Engine.handle`; the domain makes every decision.
"""
