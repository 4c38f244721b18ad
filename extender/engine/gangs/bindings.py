"""Post the Bindings of members, and report their outcome to the workload."""

from __future__ import annotations

from extender.domain import events as e
from extender.domain.events import MemberRef
from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.claim import Claims
from extender.domain.ports import BindResult, PodCache, Pods
from extender.domain.wellknown import DEVICES, GPUS
from extender.engine.devices.member_devices import MemberDevices
from extender.engine.engine import Engine
from extender.engine.member_annotations import claim_of, nodes_of_gang


class MemberBindings:
    """Bind members to the nodes that Slurm gave them."""

    def __init__(self, engine: Engine, pods: Pods, cache: PodCache, claims: Claims, devices: MemberDevices) -> None:
        self._engine = engine
        self._devices = devices
        self._pods = pods
        self._cache = cache
        self._claims = claims

    def begin(self, p: Placeholder, pod: MemberRef, node: str) -> None:
        """Record that a Binding of this member is about to be sent."""
        self._engine.handle(p.key, e.BindStarted(pod.uid, node), "bind")

    async def post(self, p: Placeholder, pod: MemberRef, node: str) -> str:
        """Send the Binding of a member for the job of `p`; "" once it is bound, else a sentence for kube-scheduler."""
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
        claim = forged | claim_of(p, pod.uid, node, self._claims, present) | nodes_of_gang(p, pod.uid)
        answer = await self._pods.bind(pod, node, claim)
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
