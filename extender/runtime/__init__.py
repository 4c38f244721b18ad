"""The controller runtime: work queues, reconcilers, the event bus, cooperative yielding and throttled log lines.

Here lives what every controller needs and none may write for itself. It knows the domain's types and nothing of the
engine, Kubernetes' API or Slurm's.
"""
