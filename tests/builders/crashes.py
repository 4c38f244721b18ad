"""How each command of the extender comes about on the real parts, and the request that it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.pods import RUN_FOR, STOP_IN
from lab.site import PodRef
from tests.builders.relay import Asked
from tests.builders.stage import Stage

TIME_LIMIT = "slurm-extender.io/time-limit"
GROUP = "e2e/group"
Causes = Callable[[Stage], list[PodRef]]


@dataclass(frozen=True, slots=True)
class Wire:
    """A request: its method, how its path ends, what stands in its body and what does not."""

    method: str
    path: str
    says: str = ""
    never: str = "\0"

    def __call__(self, asked: Asked) -> bool:
        """Whether it is one."""
        if asked.method != self.method or not re.search(self.path + r"(\?.*)?$", asked.path):
            return False
        body = asked.body.decode(errors="replace")
        return self.says in body and self.never not in body


@dataclass(frozen=True, slots=True)
class Crash:
    """`before`, an extender lives; then `cause` leads to the request `wire`. Both return the Pods that they made.

    `after` gives those room that wait, and takes back what was done to nodes. `alone`: `cause` happens while no
    extender lives. `granted` jobs at most were ever given nodes for one Pod. `ended`: Pods that must go.
    """

    wire: Wire
    cause: Causes
    before: Causes = lambda _stage: []
    after: Callable[[Stage], None] = lambda _stage: None
    alone: bool = False
    granted: int = 1
    ended: tuple[str, ...] = ()


def comes(stage: Stage) -> list[PodRef]:
    return [stage.pod("web")]


def succeeds(stage: Stage) -> list[PodRef]:
    return [stage.pod("web", annotations={RUN_FOR: "1s"})]


def bound(stage: Stage) -> list[PodRef]:
    """A Pod that takes a moment to leave."""
    pod = stage.pod("web", grace_s=6, annotations={STOP_IN: "3s"})
    stage.site.bound(pod)
    return [pod]


def leaves(stage: Stage) -> list[PodRef]:
    stage.site.delete(_named(stage, "web"))
    return []


def cancelled(stage: Stage) -> list[PodRef]:
    stage.cancel(stage.job(_named(stage, "web")).job_id)
    return []


def queued(stage: Stage) -> list[PodRef]:
    """Two Pods for one place."""
    found = []
    for name in ("first", "web"):
        found.append(stage.pod(name, partition=stage.family.tiny, cpus=4))
        stage.job(found[-1])
        if name == "first":
            stage.site.bound(found[-1])
    return found


def queued_in_a_group(stage: Stage) -> list[PodRef]:
    """A Pod that may use one node, which is full."""
    site, first = stage.site, stage.family.nodes[0]
    site.patch_node(first, {"metadata": {"labels": {GROUP: "x"}}})
    stage.running(stage.submit(stage.family.main, cpus=64, nodes=[first]))
    pod = stage.pod("web", nodeSelector={GROUP: "x"})
    stage.job(pod)
    return [pod]


def group_grows(stage: Stage) -> list[PodRef]:
    stage.site.patch_node(stage.family.nodes[1], {"metadata": {"labels": {GROUP: "x"}}})
    return []


def no_group(stage: Stage) -> None:
    """The Pod is bound before its node loses the label."""
    stage.site.bound(_named(stage, "web"), timeout_s=90)
    for node in stage.family.nodes[:2]:
        stage.site.patch_node(node, {"metadata": {"labels": {GROUP: None}}})


def wishes(stage: Stage) -> list[PodRef]:
    stage.site.annotate(_named(stage, "web"), {TIME_LIMIT: "90"})
    return []


def room(stage: Stage) -> None:
    stage.site.delete(_named(stage, "first"))


def another_wish(stage: Stage) -> None:
    room(stage)
    stage.site.annotate(_named(stage, "web"), {TIME_LIMIT: "95"})


def _named(stage: Stage, name: str) -> PodRef:
    found = next(pod["metadata"] for pod in stage.site.pods(stage.namespace) if pod["metadata"]["name"] == name)
    return PodRef(stage.namespace, name, found["uid"])


JOB = r"/job/\d+"
POD = r"/pods/web"
NODE = r"/nodes?/[^/]+"

CRASHES: Mapping[str, Crash] = {
    "SubmitJob": Crash(Wire("POST", r"/job/(submit|allocate)"), comes),
    "ProbeJob": Crash(Wire("DELETE", "/jobs/?", says='"job_name"'), comes, alone=True),
    "ReadJob": Crash(Wire("GET", JOB), comes),
    "FollowCandidates": Crash(
        Wire("POST", JOB, says='"excluded_nodes"', never='"time_limit"'), group_grows, queued_in_a_group, no_group
    ),
    "UpdateJob": Crash(Wire("POST", JOB, says='"time_limit"'), wishes, queued, room),
    "CancelJob": Crash(Wire("DELETE", "/jobs/?", says='"jobs"'), leaves, bound, ended=("web",)),
    "CancelJob of one that succeeded": Crash(Wire("DELETE", "/jobs/?", says='"jobs"'), succeeds),
    "AllocationChecker.recheck": Crash(Wire("PATCH", POD, says="status.slurm-extender.io/node"), comes),
    "WakePod": Crash(Wire("PATCH", POD, says="status.slurm-extender.io/node"), comes),
    "NoteCancelled": Crash(
        Wire("PATCH", POD, says="status.slurm-extender.io/cancelled"), cancelled, queued, another_wish
    ),
    "EndPod": Crash(Wire("POST", f"{POD}/eviction"), cancelled, bound, ended=("web",)),
    "Announce": Crash(Wire("POST", "/events", says="SlurmAllocationLost"), cancelled, bound, ended=("web",)),
    "DrainNode": Crash(Wire("POST", NODE, says='"DRAIN"'), cancelled, bound, ended=("web",)),
    "ResumeNode": Crash(Wire("POST", NODE, says='"UNDRAIN"'), cancelled, bound, ended=("web",)),
    "Binding": Crash(Wire("POST", f"{POD}/binding"), comes),
}
"""By the name of the command; what stands behind it tells two of one command apart."""
