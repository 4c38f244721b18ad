"""Post the Bindings of members, and report their outcome to the workload."""

from __future__ import annotations

from extender.domain import events as e
from extender.domain.events import MemberRef
from extender.domain.jobs.devices import written_devices
from extender.domain.placeholder import Placeholder
from extender.domain.pods.claim import Claims
from extender.domain.ports import BindResult, PodCache, Pods
from extender.domain.wellknown import DEVICES, GANG_ANNOTATIONS, GANG_MEMBERS, GANG_NODES, GANG_RANK, GPUS
from extender.engine.engine import Engine


class MemberBindings:
    """Bind members to the nodes that Slurm gave them."""

    def __init__(self, engine: Engine, pods: Pods, cache: PodCache, claims: Claims) -> None:
        self._engine = engine
        self._pods = pods
        self._cache = cache
        self._claims = claims

    def begin(self, p: Placeholder, pod: MemberRef, node: str) -> None:
        """Record that a Binding of this member is about to be sent."""
        self._engine.handle(p.key, e.BindStarted(pod.uid, node), "bind")

    async def post(self, p: Placeholder, pod: MemberRef, node: str) -> str:
        """Send the Binding of a member for the job of `p`; "" once it is bound, else a sentence for kube-scheduler."""
        given = p.slurm_node_of(pod.uid)
        devices = written_devices(p.devices_of(pod.uid))
        known = self._cache.get(pod.uid)
        # Values that the author of the Pod wrote there must not pass for the extender's on the node.
        forged = {
            key: "" for key in (DEVICES, GPUS, *GANG_ANNOTATIONS) if known is not None and known.annotations.get(key)
        }
        claim = {**forged, **self._claims.written(p.job_id, node, pod.uid, given), **devices, **_gang(p, pod.uid)}
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


def _gang(p: Placeholder, uid: str) -> dict[str, str]:
    """Return what a member of a gang needs to find the others."""
    size = max(p.request.members if p.request is not None else len(p.members), len(p.slurm_nodes))
    rank = next((rank for rank, member in enumerate(p.members) if member.ref.uid == uid), None)
    if p.key == uid or rank is None or not p.slurm_nodes:
        return {}
    nodes = ",".join(p.slurm_nodes[slot % len(p.slurm_nodes)] for slot in range(size))
    return {GANG_RANK: str(rank), GANG_MEMBERS: str(size), GANG_NODES: nodes}
