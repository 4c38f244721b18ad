"""Kubernetes' JSON, read into views.

Here live slim pydantic models of the few fields that the extender reads, and the functions that turn them into
`extender.domain.views`. Unknown fields are ignored. Used by whoever receives such JSON: watches, kube-scheduler, the
command line. No I/O.
"""
