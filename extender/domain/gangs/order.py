"""Read a Pod's place among the members of its gang from the labels that its controller gives it."""

from __future__ import annotations

from extender.domain.gangs import labels
from extender.domain.gangs.membership import MemberOrder
from extender.domain.gangs.readers import read_index
from extender.domain.views import PodView


def order_of(pod: PodView) -> MemberOrder:
    """Return the place that the labels of Jobs, StatefulSets, Kubeflow and Ray say; else the name decides."""
    job_index = pod.labels.get(labels.JOB_INDEX) or pod.annotations.get(labels.JOB_INDEX)
    index = read_index(job_index)
    if index is None:
        index = read_index(pod.labels.get(labels.STATEFUL_SET_INDEX))
    if index is not None:
        return MemberOrder((index,), pod.name)
    kind = pod.labels.get(labels.KUBEFLOW_TYPE) or pod.labels.get(labels.RAY_TYPE)
    if kind is None:
        return MemberOrder((), pod.name)
    replica = read_index(pod.labels.get(labels.KUBEFLOW_INDEX))
    return MemberOrder(
        (0 if kind.lower() in labels.FIRST_TYPES else 1, *(() if replica is None else (replica,))), pod.name
    )
