"""Figures as ratios to a floor that is measured in the same run.

Here live programs that measure and write `bench/results/*.json`. Absolute figures of a shared machine inform, ratios
decide; no test depends on either.
"""
