"""The extender protocol of kube-scheduler, field by field.

`k8s.io/kube-scheduler/extender/v1/types.go` has no JSON tags, so the names are Go's, capitals included, and what is not
set comes as `null`. The file is the same from 1.30 to 1.36. Answers use the exact case, although Go would take any.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainValidator, WithJsonSchema

from extender.domain.views import PodView
from extender.kube.wire.fields import MalformedObject
from extender.kube.wire.pod import read_pod


def _go_name(name: str) -> str:
    return {"pod_uid": "PodUID"}.get(name, "".join(part.capitalize() for part in name.split("_")))


class GoModel(BaseModel):
    """Fields named as in Go; unknown ones are ignored, as Go's decoder does."""

    model_config = ConfigDict(alias_generator=_go_name, validate_by_name=True, extra="ignore", frozen=True)


def _pod(given: Any) -> PodView:
    """Read the Pod. The error names the wrong field and not its value, which would be written to a log."""
    try:
        return read_pod(given)
    except MalformedObject as error:
        raise ValueError(error.fault) from None


Pod = Annotated[PodView, PlainValidator(_pod), WithJsonSchema({"type": "object", "title": "v1.Pod"})]


class NodeList(BaseModel):
    """`v1.NodeList`; its Nodes are handed back as they came."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    items: list[dict[str, Any]] | None = None


class ExtenderArgs(GoModel):
    """The request of `/filter`. `node_names` comes with `nodeCacheCapable: true`, else `nodes`."""

    pod: Pod
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class ExtenderFilterResult(GoModel):
    """The response of `/filter`.

    `node_names` or `nodes` may stay, whichever was asked with. `failed_and_unresolvable_nodes` maps a node to why it
    may not; preemption does not try those. `error` makes kube-scheduler try the Pod again on a timer, whatever else is
    said.
    """

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class ExtenderBindingArgs(GoModel):
    """The request of `/bind`."""

    pod_name: str
    pod_namespace: str
    pod_uid: str
    node: str


class ExtenderBindingResult(GoModel):
    """The response of `/bind`: "" is success, and then the Pod must be bound."""

    error: str = ""
