"""Count and time for Prometheus. docs/reference/metrics.md lists the metrics.

No label holds a Pod, a job or a node: their number has no bound.
"""
