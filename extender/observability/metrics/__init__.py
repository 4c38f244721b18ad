"""What is counted and timed, for Prometheus. docs/metrics.md lists it.

No label holds a Pod, a job or a node: their number has no bound.
"""
