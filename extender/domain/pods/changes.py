"""Decide whether a Pod requests something else than before."""

from __future__ import annotations

from collections.abc import Mapping

from extender.domain.pods.requests import pod_requests
from extender.domain.views import PodView
from extender.domain.wellknown import STATUS_ANNOTATIONS


def requests_changed(old: PodView, new: PodView) -> bool:
    """Return whether a Pod is to be translated again."""
    return _settings(old) != _settings(new) or old.resource_claims != new.resource_claims or _resized(old, new)


def _settings(pod: PodView) -> Mapping[str, str]:
    return {key: value for key, value in pod.annotations.items() if key not in STATUS_ANNOTATIONS}


def _resized(old: PodView, new: PodView) -> bool:
    """Return whether the Pod requests another amount: an in-place resize."""
    was, now = ((pod.containers, pod.init_containers, pod.pod_requests, pod.pod_held) for pod in (old, new))
    if was == now:
        return False
    try:
        return pod_requests(old) != pod_requests(new)
    except ValueError:
        return False
