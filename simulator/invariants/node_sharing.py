"""Check what starts on a node: no Pod of an ended job is there, and kubelet has room for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from extender.domain.jobs.job import Mode
from extender.domain.wellknown import OWN_PREFIX
from extender.kube.reflector import DOUBT_S
from simulator.event_log import job_subject, node_subject, pod_subject
from simulator.invariants.invariant import Invariant
from simulator.invariants.records import JobEnd, job_id_of, occupies_node
from simulator.kube.kubelet_admission import exceeded_resources
from simulator.kube.objects import Json
from simulator.kube.resources import PODS
from simulator.slurm.records import SimJob

if TYPE_CHECKING:
    from simulator.invariants.checker import InvariantChecker

WINDOW_S = 10.0
"""A node given away within this time of an end that was not announced is beyond any fence: two polls and a patch."""

GIVEN_AGAIN_S = 60.0
"""Where the id of a forgotten job was given out again at once the states show no change: the job is missed when it is
read in its turn (`refreshRate`)."""

MODE = f"{OWN_PREFIX}mode"
"""Pod annotation: the mode of its job."""

BESIDE = "with a part of the node that it was given before"
CAME_AFTER = "which was bound in this window after its job's end, when the nodes of the next one had been checked"
DISTURBED = "in a disturbance"
"""The only excuse of a job's start where the fence script is installed."""

KNOWN_AFTER_S = 1.0
"""Undisturbed seconds after which the extender knows other Pods on a node."""

LISTED_AFTER_S = DOUBT_S + 5.0
"""The same for Pods that a restored etcd brings back: where its versions come again, only the next list shows them."""


@dataclass(slots=True)
class NodeSharingChecks:
    """Check each start on a node, for `checker`, which knows how jobs ended and when Pods came."""

    checker: InvariantChecker

    def check_start(self, node: str, what: str, job: tuple[int, str], *, by_slurm: bool = False) -> None:
        """Check a start on a node, for a job and workload: is a Pod there whose job is over?

        `by_slurm`: a job. Where the fence script is installed PrologSlurmctld kept it waiting, so that all was in time.
        """
        self.checker.checked[Invariant.FENCE] += 1
        now = asyncio.get_running_loop().time()
        for other, pod in self.checker.pods.items():
            own = self.checker.workload_of_pod(other)
            on_another_node = own == job[1] or self.checker.slurm_node_of(pod) != node
            if (
                on_another_node
                or other in self.checker.stopped_pods
                or not occupies_node(pod)
                or self.checker.holds_node(pod)
            ):
                continue
            ended, name = self.checker.job_ends.get((job_id_of(pod), own)), pod["metadata"]["name"]
            since = ended.at if ended else now
            began = self.checker.job_starts.get(job, now)
            if began < since:  # not the next one: both had their parts of the node at one time
                self.checker.windows[BESIDE] += 1
                continue
            came_after = began < self.checker.arrivals.get(other, 0.0)
            cause = self._excuse(job_id_of(pod), ended, since, now, by_slurm=by_slurm, came_after=came_after)
            if cause == DISTURBED or (cause and not (self.checker.cluster.fence.everywhere and by_slurm)):
                self.checker.windows[cause] += 1
                self.checker.event_log.add(
                    f"{what} starts beside Pod {name}, {cause}", pod_subject(name), node_subject(node)
                )
            else:
                job_end = f"was {ended.state if ended else 'gone'} {now - since:.1f} s ago"
                text = f"{what} starts while Pod {name} is there, whose job {job_id_of(pod)} {job_end}"
                self.checker.violate(
                    Invariant.FENCE, text, pod_subject(name), node_subject(node), job_subject(job_id_of(pod))
                )

    def _is_unseen(self, ended: JobEnd, now: float) -> bool:
        """Return whether no poll had to see this end yet."""
        return not ended.announced and now - ended.at <= WINDOW_S

    def check_mode(self, job: SimJob, uid: str) -> None:
        """Check a placeholder job that starts: in mode `auto` it has a script, or each of its nodes the fence script.

        On nodes without slurmd there is no script to hold them.
        """
        pod, nodes = next(iter(self.checker.pods_of(uid)), None), self.checker.cluster.slurm.controller.nodes
        if pod is None or job.script is not None:
            return
        fence = self.checker.cluster.fence
        mode = (pod["metadata"].get("annotations") or {}).get(MODE, Mode.AUTO)
        with_slurmd = [node for node in job.nodes if node in nodes and not nodes[node].external]
        with_slurmd = [node for node in with_slurmd if not fence.covers(node)]
        if mode == Mode.AUTO and with_slurmd:
            text = f"job {job.job_id} of mode auto has no script, and {', '.join(with_slurmd)} no fence"
            self.checker.violate(Invariant.FENCE, text, job_subject(job.job_id), *map(node_subject, with_slurmd))

    def _excuse(
        self, job_id: int, ended: JobEnd | None, since: float, now: float, *, by_slurm: bool, came_after: bool
    ) -> str:
        """Return why the node could not have been held; "": it should have been held.

        `came_after`: the Pod there was bound when the next job had its nodes already.
        """
        if ended is None:
            return "bound without a job"
        if self.checker.quiescence.lasted(since) < now - since or not self.checker.quiescence.lasted(since):
            return DISTURBED
        if ended.state == "SUSPENDED":
            return "after a suspension"
        if (
            ended.state == "FORGOTTEN"
            and job_id in self.checker.cluster.slurm.controller.jobs
            and now - since <= GIVEN_AGAIN_S
        ):
            return "its job's id was given out again"
        # The extender binds Pods itself, not before Slurm has reported the jobs of the Pods on the node.
        if by_slurm and self._is_unseen(ended, now):
            return "before any poll could see the end"
        if came_after and self._is_unseen(ended, now):
            return CAME_AFTER
        return ""

    def check_room(self, pod: Json) -> None:
        """Check a bound Pod: kubelet's sums hold, of what was known of the node."""
        self.checker.checked[Invariant.ROOM] += 1
        name = pod["spec"]["nodeName"]
        node, uid = self.checker.cluster.kube.node(name), pod["metadata"]["uid"]
        there = [
            other
            for other in self.checker.cluster.kube.storage.of(PODS)
            if other["spec"].get("nodeName") == name and occupies_node(other)
        ]
        if node is None or not (exceeded := exceeded_resources(node, there)):
            return
        known = [
            other
            for other in there
            if (each := other["metadata"]["uid"]) == uid
            or self.checker.quiescence.lasted(self.checker.arrivals.get(each, 0.0))
            > (LISTED_AFTER_S if each in self.checker.returned else KNOWN_AFTER_S)
        ]
        subjects = pod_subject(pod["metadata"]["name"]), node_subject(self.checker.slurm_node_of(pod))
        if exceeded_resources(node, known):
            self.checker.violate(Invariant.ROOM, "; ".join(exceeded), *subjects)
        else:
            self.checker.windows["on a node to which others just came"] += 1
            self.checker.event_log.add(f"more than the node has, others just came: {'; '.join(exceeded)}", *subjects)
