"""Reads the JSON of Kubernetes into `extender.domain.views`, in one step.

Only the fields that the extender needs are read (`fields.Fields`), each in time proportional to its size; unknown ones
are ignored. Watches, lists, kube-scheduler's calls and the command line use it. No I/O.
"""
