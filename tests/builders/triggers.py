"""Triggers of each operation of the extender in a simulated cluster, and checks of the final state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from extender.domain.wellknown import DRAIN_PREFIX, GANG, GANG_SIZE, GATE
from simulator.kube.kubelet import RUN_FOR
from simulator.kube.objects import Json, a_pod, owner_reference
from simulator.kube.resources import COSCHEDULING_POD_GROUPS, LEASES, PODS
from simulator.kube.storage import ObjectKey
from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import FOREIGN_PODS, IMPATIENT, NAMES, REGISTERED, REGISTERING, UNHURRIED, Site
from tests.builders.resource_claims import (
    CPU_MAP,
    DEVICE_MAP,
    bound_and_reminded,
    bound_with_devices,
    come_for_an_extended_resource,
    come_for_cpus,
    come_with_resource_claims,
    granted_with_devices,
    pinned_and_waiting,
    resource_claims_in_order,
    share_for_a_moment,
    with_cpus,
    with_devices,
)
from tests.builders.rights import shipped_rights

BATCH = {"slurm-extender.io/mode": "batch"}
COMMENT = "slurm-extender.io/comment"
TIME_LIMIT = "slurm-extender.io/time-limit"
BYSTANDER = "bystander"
PACE = UNHURRIED + REGISTERING + FOREIGN_PODS + IMPATIENT

NEW_NODE = "k9"

SETTLED = 15.0
"""Seconds for which the final state must last: a request may arrive late."""


async def nothing(_site: Site) -> None:
    """Do nothing."""


def as_it_is(_site: Site) -> None:
    """Leave the cluster unchanged."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Describe a trigger: run `before` with an extender; then run `cause`, with it or, if `alone`, while none runs.

    `survive`: Pods that must not end. `after` makes room. `equip` changes the cluster at first; `config` is appended.
    """

    cause: Callable[[Site], Awaitable[None]]
    before: Callable[[Site], Awaitable[None]] = nothing
    after: Callable[[Site], Awaitable[None]] = nothing
    alone: bool = False
    survive: tuple[str, ...] = field(default=(BYSTANDER,))
    equip: Callable[[Site], None] = as_it_is
    config: str = ""


async def come(site: Site) -> None:
    site.kube.add_pod("web", annotations=BATCH, grace_s=2)


async def come_and_lose_an_answer(site: Site) -> None:
    site.slurm.restd.faults.add(SlurmFault.LOSE_ANSWER, "POST", "/job/submit", times=1)
    await come(site)


async def arrive_without_an_answer(site: Site) -> None:
    await come(site)
    await asyncio.sleep(10)


async def come_without_checkpoints(site: Site) -> None:
    site.kube.storage.remove(ObjectKey(LEASES, "slurm-extender", "slurm-extender-checkpoints"))
    await come(site)


async def come_with_an_owner(site: Site) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"}}
    site.kube.add_pod("web", annotations=BATCH, owner=owner_reference(site.kube.create(owner)), grace_s=2)


async def come_gated(site: Site) -> None:
    site.kube.add_pod("web", annotations=BATCH, gates=(GATE,), grace_s=2)


async def come_gated_with_a_volume_claim(site: Site) -> None:
    pod = a_pod("web", annotations=BATCH, gates=(GATE,), grace_s=2)
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    site.kube.create(pod)


async def bound(site: Site) -> None:
    await come(site)
    await site.bound("web")


async def bound_at_once(site: Site) -> None:
    site.kube.add_pod("web", annotations={"slurm-extender.io/mode": "allocation"}, grace_s=2)
    await site.bound("web")


async def full(site: Site) -> None:
    for name in ("first", "second"):
        site.kube.add_pod(name, cpu="8", grace_s=1)
        await site.bound(name)


async def queue_up(site: Site) -> None:
    site.kube.add_pod("web", cpu="8", annotations=BATCH, grace_s=2)
    await site.until(lambda: bool(site.jobs_of("web")), "its job")


async def queued(site: Site) -> None:
    await full(site)
    await queue_up(site)


async def exclude(site: Site) -> None:
    site.cordon(site.node_of("second"))


async def give_room(site: Site) -> None:
    site.kube.delete_pod("first", grace_s=1)


async def room(site: Site) -> None:
    site.cordon(site.node_of("second"), False)
    site.kube.delete_pod("first", grace_s=1)


async def room_and_another_wish(site: Site) -> None:
    site.kube.delete_pod("first", grace_s=1)
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].update({COMMENT: "again"}))


async def wish_something_else(site: Site) -> None:
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].update({TIME_LIMIT: "90"}))


async def leave(site: Site) -> None:
    site.kube.delete_pod("web", grace_s=1)


async def leave_and_be_gone(site: Site) -> None:
    await leave(site)
    await site.gone("web")


async def leave_by_force(site: Site) -> None:
    site.kube.delete_pod("web", grace_s=0)


async def succeed(site: Site) -> None:
    site.kube.add_pod("web", annotations={**BATCH, RUN_FOR: "3"}, grace_s=2)


async def a_member_finishes(site: Site) -> None:
    for number in range(2):
        said = {GANG: "ring", GANG_SIZE: "2", "slurm-extender.io/mode": "allocation"}
        soon = {RUN_FOR: "3"} if number else {}
        site.kube.add_pod(f"ring-{number}", annotations=said | soon, grace_s=2)


async def a_member_of_a_pod_group_comes(site: Site) -> None:
    """Create a gang that lacks a member: the next extender reads PodGroups, and writes only the status."""
    site.kube.rbac = shipped_rights("pod-groups")
    site.kube.resources = (*site.kube.resources, COSCHEDULING_POD_GROUPS)
    site.config += f"gangs: {{podGroups: [{COSCHEDULING_POD_GROUPS.group}]}}\n"
    meta = {"name": "ring", "namespace": "default"}
    kind = COSCHEDULING_POD_GROUPS.api_version
    site.kube.create({"apiVersion": kind, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 2}})
    site.kube.create(a_pod("web", labels={f"{COSCHEDULING_POD_GROUPS.group}/pod-group": "ring"}, grace_s=1))


async def the_member_goes(site: Site) -> None:
    site.kube.delete_pod("web", grace_s=1)


async def its_node_is_free(site: Site) -> None:
    await site.until(lambda: len(site.jobs_of("gang ring")[0].nodes) == 1, "the end of its share", within=200)


async def cancelled_by_an_administrator(site: Site) -> None:
    site.slurm.controller.cancel(site.jobs_of("web")[0].job_id)


async def node_lost(site: Site) -> None:
    site.slurm.controller.set_down(site.jobs_of("web")[0].nodes[0])


async def node_back(site: Site) -> None:
    for node in site.slurm.controller.nodes.values():
        if node.down:
            site.slurm.controller.resume(node.name)


async def exceeds_time_limit(site: Site) -> None:
    site.slurm.controller.end(site.jobs_of("web")[0].job_id, "TIMEOUT")


async def another_node(site: Site) -> None:
    site.kube.add_node(NEW_NODE, cpu="4", memory="8Gi", labels=REGISTERED)


async def relabelled(site: Site) -> None:
    site.edit_node(NEW_NODE, lambda node: node["metadata"]["labels"].update(zone="z1"))


async def grown(site: Site) -> None:
    site.edit_node(NEW_NODE, lambda node: node["status"]["allocatable"].update(cpu="16"))


async def not_registered_any_more(site: Site) -> None:
    site.edit_node(NEW_NODE, lambda node: node["metadata"]["labels"].pop("registered"))


async def registered(site: Site) -> None:
    await another_node(site)
    await as_wanted(site)


async def as_wanted(site: Site) -> None:
    """Wait until Slurm has the Node as configured, or does not have it if it must not exist."""

    def check() -> bool:
        node, there = site.kube.node(NEW_NODE), site.slurm.controller.nodes.get(NEW_NODE)
        if node is None or "registered" not in node["metadata"]["labels"]:
            return there is None
        zone = node["metadata"]["labels"].get("zone")
        wanted = {"k8s", f"zone-{zone}"} if zone else {"k8s"}
        if there is None or there.drained or there.cpus != int(node["status"]["allocatable"]["cpu"]):
            return False
        return {one for one in there.features if not one.startswith("slurm-extender:")} == wanted

    await site.until(check, f"{NEW_NODE} as it is to be", within=400, every=0.5)


async def an_operator_drains(site: Site) -> None:
    node = next(name for name in NAMES if name != site.node_of(BYSTANDER))
    site.slurm.controller.drain(node, "bad DIMM")


async def an_operator_resumes(site: Site) -> None:
    for node in site.drained():
        site.slurm.controller.resume(node)


async def another_scheduler_binds(site: Site) -> None:
    node = next(name for name in NAMES if name != site.node_of(BYSTANDER))
    site.kube.add_pod("other", scheduler="default-scheduler", node=node, cpu="4", grace_s=1)


async def a_foreign_pod(site: Site) -> None:
    await another_scheduler_binds(site)
    await site.until(lambda: bool(site.jobs_of("other")), "its job")


async def the_foreign_pod_leaves(site: Site) -> None:
    site.kube.delete_pod("other", grace_s=1)


async def never_start(site: Site) -> None:
    """Create a Pod whose image pull never ends."""
    site.kubelets.start_s = 10**6
    await come(site)
    await site.bound("web")
    waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    site.edit_pod("web", lambda pod: pod["status"].update(containerStatuses=[waiting]))


COMES = Trigger(come, survive=(BYSTANDER, "web"))
UNSURE = Trigger(come_and_lose_an_answer, survive=(BYSTANDER, "web"))
WOKEN = Trigger(arrive_without_an_answer, alone=True, survive=(BYSTANDER, "web"))
OWNED = Trigger(come_with_an_owner, survive=(BYSTANDER, "web"))
GATED = Trigger(come_gated, survive=(BYSTANDER, "web"))
UNCOVERED = Trigger(come_gated_with_a_volume_claim, survive=(BYSTANDER, "web"))
EXPLAINED = Trigger(queue_up, full, give_room, survive=(BYSTANDER, "web", "second"))
STUCK = Trigger(never_start, survive=(BYSTANDER, "web"))
EXCLUDED = Trigger(exclude, queued, room, survive=(BYSTANDER, "web", "second"))
CHANGED = Trigger(wish_something_else, queued, give_room, survive=(BYSTANDER, "web", "second"))
REFUSED = Trigger(cancelled_by_an_administrator, queued, room_and_another_wish, survive=(BYSTANDER, "web", "second"))
COMES_WITHOUT_CHECKPOINTS = Trigger(come_without_checkpoints)
LEAVES = Trigger(leave, bound)
LEAVES_AN_ALLOCATION = Trigger(leave, bound_at_once)
LEFT_ALONE = Trigger(leave, bound, alone=True)
GONE_ALONE = Trigger(leave_and_be_gone, bound, alone=True)
FORCED = Trigger(leave_by_force, bound)
SUCCEEDS = Trigger(succeed)
SHRINKS = Trigger(a_member_finishes, after=its_node_is_free, survive=(BYSTANDER, "ring-0"))
GROUPED = Trigger(a_member_of_a_pod_group_comes, after=the_member_goes, alone=True)
TIMES_OUT = Trigger(exceeds_time_limit, bound)
DOWN = Trigger(node_lost, bound, node_back)
EVICTED = Trigger(cancelled_by_an_administrator, bound)
REGISTERS = Trigger(another_node, after=as_wanted)
RELABELLED = Trigger(relabelled, registered, as_wanted)
GROWN = Trigger(grown, registered, as_wanted)
DEREGISTERS = Trigger(not_registered_any_more, registered, as_wanted)
MARKED = Trigger(an_operator_drains, after=an_operator_resumes)
FOREIGN_POD_COMES = Trigger(another_scheduler_binds, survive=(BYSTANDER, "other"))
FOREIGN_POD_LEAVES = Trigger(the_foreign_pod_leaves, a_foreign_pod)
WITH_RESOURCE_CLAIMS = Trigger(
    come_with_resource_claims, survive=(BYSTANDER, "web"), equip=with_devices, config=DEVICE_MAP
)
EXTENDED = Trigger(come_for_an_extended_resource, survive=(BYSTANDER, "web"), equip=with_devices, config=DEVICE_MAP)
LEAVES_ITS_RESOURCE_CLAIM = Trigger(leave_by_force, granted_with_devices, equip=with_devices, config=DEVICE_MAP)
FORGOTTEN = Trigger(
    share_for_a_moment, bound_with_devices, survive=(BYSTANDER, "web"), equip=with_devices, config=DEVICE_MAP
)
LEAVES_ITS_REMINDER = Trigger(leave, bound_and_reminded, equip=with_devices, config=DEVICE_MAP)
PINS = Trigger(come_for_cpus, survive=(BYSTANDER, "web"), equip=with_cpus, config=CPU_MAP)
LEAVES_ITS_CPUS = Trigger(leave_by_force, pinned_and_waiting, equip=with_cpus, config=CPU_MAP)

TRIGGERS: dict[str, tuple[Trigger, ...]] = {
    "SubmitJob": (COMES,),
    "ProbeJob": (UNSURE, WOKEN),
    "ReadJob": (COMES,),
    "FollowCandidates": (EXCLUDED,),
    "UpdateJob": (CHANGED,),
    "ShrinkJob": (SHRINKS,),
    "CancelJob": (LEAVES, SUCCEEDS),
    "AllocationChecker.recheck": (COMES,),
    "WakePod": (COMES,),
    "NoteCancelled": (REFUSED,),
    "EndPod": (TIMES_OUT, EVICTED),
    "Announce": (TIMES_OUT,),
    "DrainNode": (TIMES_OUT,),
    "ResumeNode": (TIMES_OUT,),
    "SlurmJobs.submit": (COMES,),
    "SlurmJobs.probe": (UNSURE,),
    "SlurmJobs.read": (COMES, FOREIGN_POD_LEAVES),
    "SlurmJobs.states": (COMES,),
    "SlurmJobs.cancel": (LEAVES_AN_ALLOCATION, LEFT_ALONE, FOREIGN_POD_LEAVES),
    "SlurmJobs.finish": (SUCCEEDS,),
    "SlurmJobs.comment": (SUCCEEDS,),
    "SlurmJobs.update": (CHANGED,),
    "SlurmJobs.follow": (EXCLUDED,),
    "SlurmJobs.shrink": (SHRINKS,),
    "SlurmForeignPods.hold": (FOREIGN_POD_COMES,),
    "SlurmForeignPods.find": (FOREIGN_POD_COMES,),
    "SlurmNodes.snapshot": (COMES,),
    "SlurmNodes.node": (DOWN,),
    "SlurmNodes.drain": (TIMES_OUT,),
    "SlurmNodes.resume": (TIMES_OUT,),
    "ExternalNodes.create": (REGISTERS, GROWN),
    "ExternalNodes.change": (RELABELLED,),
    "ExternalNodes.delete": (DEREGISTERS, GROWN),
    "Pods.bind": (COMES,),
    "Pods.wake": (COMES, GATED),
    "Pods.ungate": (UNCOVERED,),
    "Pods.annotate": (REFUSED, WOKEN),
    "Pods.end": (TIMES_OUT, EVICTED),
    "PodReads.read": (GONE_ALONE,),
    "KubeNodes.report": (MARKED,),
    "KubeNodes.mark": (MARKED,),
    "NodeLeases.renewed": (FORCED,),
    "CheckpointStore.read": (GONE_ALONE,),
    "CheckpointStore.begin": (COMES_WITHOUT_CHECKPOINTS,),
    "CheckpointStore.advance": (COMES,),
    "Owners.controllers": (OWNED,),
    "Pods.explain": (EXPLAINED,),
    "Pods.report": (STUCK,),
    "PodGroupStatuses.write": (GROUPED,),
    "ResourceClaims.release": (LEAVES_ITS_RESOURCE_CLAIM, LEAVES_ITS_CPUS),
    "ResourceClaims.allocate": (WITH_RESOURCE_CLAIMS, EXTENDED, PINS),
    "ResourceClaims.read": (WITH_RESOURCE_CLAIMS, EXTENDED, PINS),
    "ResourceClaims.remind": (FORGOTTEN,),
    "ResourceClaims.remove": (LEAVES_ITS_REMINDER,),
    "DeviceCache.passed": (WITH_RESOURCE_CLAIMS, EXTENDED, PINS),
}
"""By operation: every trigger that leads to it in a different way."""


async def begin(site: Site, trigger: Trigger) -> None:
    """Start a Pod that must stay unaffected, and prepare the trigger."""
    site.kube.add_pod(BYSTANDER, cpu="8", grace_s=1)
    await site.bound(BYSTANDER)
    await trigger.before(site)


@dataclass(slots=True)
class InvariantMonitor:
    """Check the invariants repeatedly, and collect violations."""

    site: Site
    uids: dict[str, str] = field(default_factory=dict)
    job: int = 0
    broken: list[str] = field(default_factory=list)
    finished: bool = False

    def check(self, survive: tuple[str, ...]) -> None:
        """Check once, unless `finished` is set."""
        site = self.site
        if self.finished:
            return
        for pod in site.kube.storage.of(PODS):
            name = pod["metadata"]["name"]
            running = [job.job_id for job in site.jobs_of(name) if job.state == "RUNNING"]
            if len(running) > 1:
                self._report(f"{name} has two running jobs: {running}")
        for name in survive:
            there = site.kube.pod(name)
            if there is None:
                if name in self.uids:
                    self._report(f"{name} is gone")
                continue
            if "deletionTimestamp" in there["metadata"]:
                self._report(f"{name} is being ended")
            if self.uids.setdefault(name, there["metadata"]["uid"]) != there["metadata"]["uid"]:
                self._report(f"{name} is another Pod")
        if self.job and [job.job_id for job in site.jobs_of(BYSTANDER)] != [self.job]:
            self._report(f"{BYSTANDER} lost its job {self.job}")

    def _report(self, text: str) -> None:
        if text not in self.broken:
            self.broken.append(text)


@asynccontextmanager
async def monitor_invariants(site: Site, trigger: Trigger) -> AsyncIterator[InvariantMonitor]:
    """Check the invariants during the block, or until `afterwards` has found them satisfied."""
    monitor = InvariantMonitor(site)

    async def watch() -> None:
        while True:
            monitor.check(trigger.survive)
            await asyncio.sleep(0.5)

    task = asyncio.create_task(watch())
    try:
        yield monitor
    finally:
        task.cancel()
    assert monitor.finished


def in_order(site: Site) -> bool:
    """Return whether each Pod runs on its only job, each placeholder job has a Pod, and no drain or device is left."""
    pods = list(site.kube.storage.of(PODS))
    jobs, gangs = 0, set[str]()
    for pod in pods:
        if gang := (pod["metadata"].get("annotations") or {}).get(GANG):
            gangs.add(gang)
            if not _runs_in_gang(site, pod, gang):
                return False
            continue
        own = site.jobs_of(pod["metadata"]["name"])
        if pod["status"]["phase"] in {"Succeeded", "Failed"}:
            jobs += len(own)
            if own:
                return False
            continue
        jobs += len(own)
        node = pod["spec"].get("nodeName", "")
        if len(own) != 1 or not node or own[0].nodes != (node,) or own[0].state != "RUNNING":
            return False
    placeholder_jobs = [job for job in site.live_jobs() if job.name.startswith("default/")]
    return len(placeholder_jobs) == jobs + len(gangs) and not held(site) and resource_claims_in_order(site)


def _runs_in_gang(site: Site, pod: Json, gang: str) -> bool:
    """Return whether the only job of the gang holds the node of this member, or has released it if it finished."""
    own, node = site.jobs_of(f"gang {gang}"), pod["spec"].get("nodeName", "")
    finished = pod["status"]["phase"] in {"Succeeded", "Failed"}
    return len(own) == 1 and own[0].state == "RUNNING" and bool(node) and (node in own[0].nodes) is not finished


def held(site: Site) -> list[str]:
    """Return the nodes that the extender drained."""
    nodes = site.slurm.controller.nodes
    return [name for name in site.drained() if nodes[name].reason.startswith(DRAIN_PREFIX)]


async def afterwards(site: Site, trigger: Trigger, monitor: InvariantMonitor) -> None:
    """Wait for the final state while an extender runs; then end all Pods, and wait until no job is left."""
    await trigger.after(site)
    await site.until(lambda: in_order(site), "order", within=400, every=0.5)
    await asyncio.sleep(SETTLED)
    assert in_order(site), site.histories()
    monitor.check(trigger.survive)
    assert not monitor.broken, "\n".join([*monitor.broken, site.histories()])
    monitor.finished = True
    for pod in list(site.kube.storage.of(PODS)):
        if "deletionTimestamp" not in pod["metadata"]:
            site.kube.delete_pod(pod["metadata"]["name"], grace_s=1)
    ended = "an end of every job"
    await site.until(lambda: not site.live_jobs() and not site.drained(), ended, within=200, every=0.5)
    await site.until(lambda: resource_claims_in_order(site), "ResourceClaims in order", within=200, every=0.5)
