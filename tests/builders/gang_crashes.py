"""Kills of an extender at the steps of a gang on the real parts, and checks of the gang afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from extender.domain.wellknown import GATE
from lab.site import PodRef
from tests.builders.changed_nodes import changed
from tests.builders.crashes import RequestPattern
from tests.builders.relay import InjectedFault, RequestPhase
from tests.builders.relays_of_a_site import NthRequest, RelayPair
from tests.builders.stage import Stage
from tests.builders.staged_gangs import all_bound, assert_in_rank_order, before_binding, gang, nodes_of_job

SIZE = 3
TAINT = {"spec": {"taints": [{"key": "e2e/gang", "value": "x", "effect": "NoSchedule"}]}}
MEMBER = r"/pods/ring-\d"
OPEN_GATE = RequestPattern("PATCH", MEMBER, contains=GATE)
BINDING = RequestPattern("POST", f"{MEMBER}/binding")
SETTLED_S = 1.0
"""For which the end has to last: a request that was sent before may arrive late."""

WHOLE_WITHIN_S = 90.0

STEPS: Mapping[str, tuple[RequestPattern, int]] = {
    "submitted": (RequestPattern("POST", r"/job/(submit|allocate)"), 1),
    "granted": (RequestPattern("GET", r"/job/\d+"), 1),
    **{f"gate-{k}-open": (OPEN_GATE, k) for k in range(1, SIZE + 1)},
    **{f"binding-{k}": (BINDING, k) for k in range(1, SIZE + 1)},
}
"""The request of a step. A step with a number is the k-th of the requests for its members."""


def assert_whole(stage: Stage, pods: list[PodRef]) -> None:
    """Assert that all members are bound in the order of ranks, on the one job that was ever made for them."""
    all_bound(stage, pods, timeout_s=WHOLE_WITHIN_S)
    stage.site.wait_for(lambda: len(stage.jobs()) == 1, "one job lives", timeout_s=WHOLE_WITHIN_S)
    stage.site.elapse(SETTLED_S)
    assert_in_rank_order(stage, pods)
    assert stage.made() == [job.job_id for job in stage.jobs()], "a job was submitted twice"
    assert not stage.drained()


def gang_with_fault(
    stage: Stage, relay_pair: RelayPair, step: str, moment: RequestPhase, kill: Callable[[], None]
) -> list[PodRef]:
    """Create a gang, and kill the extender in that moment of that step."""
    fault = InjectedFault(NthRequest(*STEPS[step]), moment, kill)
    relay_pair.arm(fault)
    pods = gang(stage, "ring", SIZE, gated=True)
    fired = fault.fired.wait(60)
    relay_pair.disarm()
    assert fired, f"no request of {step} within a minute: {stage.site.diagnostics()}"
    return pods


def voted(stage: Stage, k: int, refused: ExitStack) -> list[PodRef]:
    """Create a gang of which kube-scheduler accepts k members; the other nodes stay tainted until `refused` ends.

    The extender shows the votes while it holds the calls. Of calls that ended, kube-scheduler repeats the answer in an
    Event.
    """
    site = stage.site
    with before_binding(stage, "ring", SIZE) as (pods, job):
        nodes = nodes_of_job(stage, job)
        refused.enter_context(changed(site, dict.fromkeys(nodes[k:], TAINT)))
        site.elapse(SETTLED_S)
    said = f"{k} of {SIZE} members of the gang have a node"

    def accepted() -> bool:
        found = site.gang(pods[0].uid) or {"members": []}
        votes = sum(row["state"] == "voted" for row in found["members"])
        return votes == k or any(said in text for pod in pods for _, text in site.events(pod))

    site.wait_for(accepted, said, timeout_s=30)
    return pods
