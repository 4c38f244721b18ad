"""Causes of each command of the extender on the real parts, and the request that it sends."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.pods import RUN_FOR, STOP_IN
from lab.site import PodRef
from tests.builders.relay import RelayedRequest
from tests.builders.stage import Stage

TIME_LIMIT = "slurm-extender.io/time-limit"
GROUP = "e2e/group"
Causes = Callable[[Stage], list[PodRef]]


@dataclass(frozen=True, slots=True)
class RequestPattern:
    """Match a request by its method, the end of its path, and text that its body contains or lacks."""

    method: str
    path: str
    contains: str = ""
    excludes: str = "\0"

    def __call__(self, request: RelayedRequest) -> bool:
        """Return whether the request matches."""
        if request.method != self.method or not re.search(self.path + r"(\?.*)?$", request.path):
            return False
        body = request.body.decode(errors="replace")
        return self.contains in body and self.excludes not in body


@dataclass(frozen=True, slots=True)
class Crash:
    """Describe how to reach the request `pattern`: `before`, an extender runs; then `cause` leads to the request.

    Both return the Pods that they made. `after` makes room for waiting Pods, and reverts changes of nodes. `alone`:
    `cause` happens while no extender runs. At most `granted` jobs get nodes for one Pod. `ended`: Pods that must end.
    """

    pattern: RequestPattern
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
    """Create and bind a Pod that takes a moment to stop."""
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
    """Create two Pods for one place."""
    found = []
    for name in ("first", "web"):
        found.append(stage.pod(name, partition=stage.family.tiny, cpus=4))
        stage.job(found[-1])
        if name == "first":
            stage.site.bound(found[-1])
    return found


def queued_in_a_group(stage: Stage) -> list[PodRef]:
    """Create a Pod that may use only one node, which is full."""
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
    """Wait until the Pod is bound; then remove the label from the nodes."""
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
    "SubmitJob": Crash(RequestPattern("POST", r"/job/(submit|allocate)"), comes),
    "ProbeJob": Crash(RequestPattern("DELETE", "/jobs/?", contains='"job_name"'), comes, alone=True),
    "ReadJob": Crash(RequestPattern("GET", JOB), comes),
    "FollowCandidates": Crash(
        RequestPattern("POST", JOB, contains='"excluded_nodes"', excludes='"time_limit"'),
        group_grows,
        queued_in_a_group,
        no_group,
    ),
    "UpdateJob": Crash(RequestPattern("POST", JOB, contains='"time_limit"'), wishes, queued, room),
    "CancelJob": Crash(RequestPattern("DELETE", "/jobs/?", contains='"jobs"'), leaves, bound, ended=("web",)),
    "CancelJob of one that succeeded": Crash(RequestPattern("DELETE", "/jobs/?", contains='"jobs"'), succeeds),
    "AllocationChecker.recheck": Crash(RequestPattern("PATCH", POD, contains="status.slurm-extender.io/node"), comes),
    "WakePod": Crash(RequestPattern("PATCH", POD, contains="status.slurm-extender.io/node"), comes),
    "NoteCancelled": Crash(
        RequestPattern("PATCH", POD, contains="status.slurm-extender.io/cancelled"), cancelled, queued, another_wish
    ),
    "EndPod": Crash(RequestPattern("POST", f"{POD}/eviction"), cancelled, bound, ended=("web",)),
    "Announce": Crash(
        RequestPattern("POST", "/events", contains="SlurmAllocationLost"), cancelled, bound, ended=("web",)
    ),
    "DrainNode": Crash(RequestPattern("POST", NODE, contains='"DRAIN"'), cancelled, bound, ended=("web",)),
    "ResumeNode": Crash(RequestPattern("POST", NODE, contains='"UNDRAIN"'), cancelled, bound, ended=("web",)),
    "Binding": Crash(RequestPattern("POST", f"{POD}/binding"), comes),
}
"""By the name of the command; a suffix distinguishes two cases of one command."""
