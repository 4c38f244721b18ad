"""Answer the mutating admission webhook: new Pods of this scheduler get the scheduling gate and their tolerations.

The tolerations are for the taints that keep other schedulers' Pods off Slurm's Nodes. For clusters without
MutatingAdmissionPolicy (Kubernetes before 1.36). Every replica answers, by the Pod alone. A Pod that cannot be read
passes unchanged: without the gate it waits in kube-scheduler instead.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from extender.domain.pods.admission import changes, named_scheduler, opted_in, tolerating
from extender.domain.ports import Clock
from extender.domain.views import Taint
from extender.http.go_route import limited_route
from extender.kube.wire.fields import MalformedObject
from extender.kube.wire.pod import read_pod
from extender.runtime.log_throttle import LogThrottle

_log = structlog.get_logger(__name__)

PREFIX = "/admission"

Json = dict[str, Any]


class AdmissionModel(BaseModel):
    """Base of the models; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class AdmissionRequest(AdmissionModel):
    """`request` of an AdmissionReview (`k8s.io/api/admission/v1/types.go`)."""

    uid: str = Field(max_length=253, pattern=r"^[!-~]*$")
    operation: str = ""
    namespace: str | None = None
    object: Json | None = None


class AdmissionReview(AdmissionModel):
    """The request that the API server sends to the webhook."""

    request: AdmissionRequest


@dataclass(frozen=True, slots=True)
class _Served:
    """The Pods that are changed."""

    schedulers: Sequence[str]
    namespaces: Collection[str] | None
    gates_resource_claims: bool
    skipped: LogThrottle


def router(
    schedulers: Sequence[str],
    namespaces: Collection[str] | None,
    max_body: int,
    clock: Clock,
    *,
    tolerated: Collection[Taint] = (),
    gates_resource_claims: bool = False,
) -> APIRouter:
    """Return the routes. Pods that are opted in get the first of `schedulers`.

    `namespaces`: those that are served, `None` for all; `max_body` is in bytes.
    `tolerated`: taints that Pods of this scheduler have to tolerate. `gates_resource_claims`: Pods with ResourceClaims
    get the gate too.
    """
    served = _Served(schedulers, namespaces, gates_resource_claims, LogThrottle(clock))
    routes = APIRouter(prefix=PREFIX, route_class=limited_route(max_body), tags=["admission"])

    @routes.post("/mutate", operation_id="mutate")
    async def mutate(review: AdmissionReview) -> Json:
        """Return the changes of this Pod. It is allowed in any case."""
        return _allowed(review.request, _patch(review.request, served, tolerated))

    @routes.post("/opt-in", operation_id="opt_in")
    async def opt_in(review: AdmissionReview) -> Json:
        """Return the same for a Pod of a Namespace that is put on Slurm: it gets the name of the scheduler first."""
        return _allowed(review.request, _patch(review.request, served, tolerated, opt_in=True))

    return routes


def _allowed(request: AdmissionRequest, patch: list[dict[str, object]]) -> Json:
    response: Json = {"uid": request.uid, "allowed": True}
    if patch:
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _patch(
    request: AdmissionRequest, served: _Served, tolerated: Collection[Taint], *, opt_in: bool = False
) -> list[dict[str, object]]:
    if request.operation != "CREATE" or request.object is None:
        return []
    schedulers, namespaces = served.schedulers, served.namespaces
    metadata = request.object.get("metadata")
    named = {"namespace": request.namespace} | (metadata if isinstance(metadata, dict) else {})
    try:
        pod = read_pod(request.object | {"metadata": named})
    except MalformedObject as error:
        if times := served.skipped.times("skipped"):
            _log.info("pod_admission_skipped", namespace=request.namespace, error=str(error), times=times)
        return []
    spec = request.object.get("spec")
    given = {key for key, value in spec.items() if value is not None} if isinstance(spec, dict) else set()
    first: list[dict[str, object]] = []
    if opt_in and schedulers and opted_in(pod) and (namespaces is None or pod.namespace in namespaces):
        first, pod = [named_scheduler(schedulers[0])], replace(pod, scheduler_name=schedulers[0])
    gate = changes(
        pod,
        schedulers,
        namespaces,
        gates_given="schedulingGates" in given,
        gates_resource_claims=served.gates_resource_claims,
    )
    return first + gate + tolerating(pod, schedulers, namespaces, tolerated, tolerations_given="tolerations" in given)
