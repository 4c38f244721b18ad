"""Post the Bindings of members, and report their outcome to the workload."""

from __future__ import annotations

from extender.controllers.devices.member_devices import MemberDevices
from extender.domain import events as e
from extender.domain.events import MemberRef
from extender.domain.gangs.bind_calls import BindCalls
from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.pods.member_annotations import allocation_annotations, nodes_of_gang
from extender.domain.ports import BindResult, Clock, PodCache, Pods
from extender.domain.wellknown import DEVICES, GPUS
from extender.engine.engine import Engine

BINDING_S = 1.0
"""The shortest time that must be left of a call for the Binding of a Pod with ResourceClaims to be sent. kube-scheduler
deletes the ResourceClaim of extended resources, and unreserves others, once it has given up the call."""

STOPPED = "the extender stops; kube-scheduler tries again"

TOO_LATE = "its ResourceClaims were written too late for this attempt; kube-scheduler tries again"


class MemberBindings:
    """Bind members to the nodes that Slurm gave them."""

    def __init__(
        self,
        engine: Engine,
        pods: Pods,
        cache: PodCache,
        allocation_records: AllocationRecords,
        devices: MemberDevices,
        *,
        calls: BindCalls,
        clock: Clock,
    ) -> None:
        self._calls = calls
        self._engine = engine
        self._clock = clock
        self._devices = devices
        self._pods = pods
        self._cache = cache
        self._allocation_records = allocation_records

    def begin(self, p: Placeholder, pod: MemberRef, node: str) -> None:
        """Record that a Binding of this member is about to be sent."""
        self._engine.handle(p.key, e.BindStarted(pod.uid, node), "bind")

    async def post(self, p: Placeholder, pod: MemberRef, node: str, *, waited_s: float = 0.0) -> str:
        """Send the Binding of a member for the job of `p`; "" once it is bound, else a sentence for kube-scheduler.

        `waited_s`: how long kube-scheduler's call has been open.
        """
        began = self._clock.now() - waited_s
        if why := await self._devices.settle(p, pod, node):
            self._engine.handle(p.key, e.BindFailed(pod.uid, why), "bind")
            return why
        now = self._engine.placeholders.get(p.key)
        if now is None or now.job_id != p.job_id or now.state not in {State.GRANTED, State.BOUND}:
            ending = "its Slurm allocation is ending"
            self._engine.handle(p.key, e.BindFailed(pod.uid, ending), "bind")
            return ending
        given = p.slurm_node_of(pod.uid)
        known = self._cache.get(pod.uid)
        present = {} if known is None else known.annotations
        # Values that the author of the Pod wrote there must not pass for the extender's on the node.
        forged = {key: "" for key in (DEVICES, GPUS) if present.get(key)}
        annotations = (
            forged
            | allocation_annotations(p, pod.uid, node, self._allocation_records, present)
            | nodes_of_gang(p, pod.uid)
        )
        within_s = None
        if self._devices.writes_resource_claims(pod, node):
            within_s = self._calls.written_within_s - (self._clock.now() - began)
        if within_s is not None and within_s < BINDING_S:
            self._engine.handle(p.key, e.BindFailed(pod.uid, TOO_LATE), "bind")
            return TOO_LATE
        answer = await self._pods.bind(pod, node, annotations, within_s=within_s)
        match answer.result:
            case BindResult.BOUND:
                self._engine.handle(p.key, e.PodBound(pod.uid, node, p.job_id, given), "bind")
                return ""
            case BindResult.REFUSED:
                self._engine.handle(p.key, e.BindFailed(pod.uid, answer.text), "bind")
                return answer.text
            case BindResult.UNKNOWN:
                # The watch shows whether it happened; kube-scheduler tries again, and the same Binding is harmless.
                return answer.text
