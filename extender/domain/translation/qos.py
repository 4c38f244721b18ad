"""Finds the containers to which a kubelet with the static CPU policy gives exclusive CPUs.

After `pkg/apis/core/v1/helper/qos/qos.go` and `pkg/kubelet/cm/cpumanager/policy_static.go`. Whether a kubelet has that
policy the API server does not show.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.domain.pods.requests import CPU, MEMORY
from extender.domain.quantity import ONE, parse
from extender.domain.views import PodView


def pinned(pod: PodView) -> tuple[str, ...]:
    """Return the names of the containers of a Guaranteed Pod that ask for whole CPUs. Raises `ValueError`."""
    if not _guaranteed(pod):
        return ()
    containers = (*pod.init_containers, *pod.containers)
    requested = ((one.name, parse({**one.limits, **one.requests}.get(CPU, "0"))) for one in containers)
    return tuple(name for name, cpus in requested if cpus > 0 and cpus % ONE == 0)


def _guaranteed(pod: PodView) -> bool:
    """Return whether requests and limits of CPU and memory are equal, for the Pod as a whole or for each container."""
    if pod.pod_requests or pod.pod_limits:
        return _same(pod.pod_requests, pod.pod_limits)
    containers = (*pod.init_containers, *pod.containers)
    return bool(containers) and all(_same(one.requests, one.limits) for one in containers)


def _same(requests: Mapping[str, str], limits: Mapping[str, str]) -> bool:
    requested = {**limits, **requests}
    return all(
        parse(limits.get(name, "0")) > 0 and parse(requested[name]) == parse(limits[name]) for name in (CPU, MEMORY)
    )
