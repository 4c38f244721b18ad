"""Refuse to pack members on nodes that two of them cannot share."""

from __future__ import annotations

from collections.abc import Iterator

from extender.domain.jobs.job import GangLayout
from extender.domain.placing.fit import host_ports
from extender.domain.translation import annotation_table as table
from extender.domain.translation.annotation_reader import Chosen
from extender.domain.translation.size import Size
from extender.domain.views import PodView


def unpackable(pod: PodView, chosen: Chosen, size: Size) -> Iterator[str]:
    """Yield a fault for each reason why another Pod like this one cannot be on its node, if it is to be packed."""
    if chosen.get(table.GANG_LAYOUT) is not GangLayout.PACK:
        return
    says = chosen.says(table.GANG_LAYOUT)
    if size.whole_node:
        yield f"{says} needs requests for CPU and memory: Pod {pod.full_name} gets a whole node without them"
    if port := next((one.port for one in host_ports(pod) if one.port > 0), None):
        yield f"{says} is not possible with host port {port} of Pod {pod.full_name}; remove one of the two"
    labels = pod.labels.items()
    own = (one for one in pod.anti_affinity if not one.namespaces or pod.namespace in one.namespaces)
    if any(set(one.labels) <= set(labels) for one in own):
        yield (
            f"{says} is not possible with the required anti-affinity of Pod {pod.full_name} to Pods with its own "
            "labels; remove one of the two"
        )
