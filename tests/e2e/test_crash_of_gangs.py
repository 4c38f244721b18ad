"""The extender is killed at every step of a gang, alone or as one of two replicas: the gang is whole afterwards.

A relay sees its requests pass, and kills a process in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from extender.domain.wellknown import GANG, GANG_SIZE, GATE
from lab.pods import RUN_FOR
from lab.site import PodRef, Site
from lab.topology import slurm_name
from tests.builders.changed_nodes import changed
from tests.builders.crashes import Wire
from tests.builders.relay import Blow, Passing
from tests.builders.relays_of_a_site import Between, Kth, relays
from tests.builders.stage import Stage
from tests.builders.staged_gangs import all_bound, assert_in_rank_order, before_binding, gang, nodes_of, nodes_of_job
from tests.e2e.test_two_replicas import instead_of_its_own, two

SIZE = 3
TAINT = {"spec": {"taints": [{"key": "e2e/gang", "value": "x", "effect": "NoSchedule"}]}}
MEMBER = r"/pods/ring-\d"
SETTLED_S = 1.0
"""For which the end has to last: a request that was sent before may arrive late."""

WHOLE_WITHIN_S = 90.0

HELD_S = 200.0
"""A Pod that ended while no extender was there holds its node until its kubelet must have heard of that."""

STEPS: Mapping[str, tuple[Wire, int]] = {
    "submitted": (Wire("POST", r"/job/(submit|allocate)"), 1),
    "granted": (Wire("GET", r"/job/\d+"), 1),
    **{f"gate-{k}-open": (Wire("PATCH", MEMBER, says=GATE), k) for k in range(1, SIZE + 1)},
    **{f"binding-{k}": (Wire("POST", f"{MEMBER}/binding"), k) for k in range(1, SIZE + 1)},
}
"""The request of a step. A step with a number is the k-th of the requests for its members."""

IN_EVERY_RUN = {("binding-2", Passing.BEFORE)}
LEADER, FOLLOWER = "a", "b"
RESUMED = ("gate-2-open", "binding-2")
"""Steps after which the next leader has requests of the same kind left."""


@pytest.fixture(scope="module")
def between(site: Site) -> Iterator[Between]:
    """Relays for an extender of this site."""
    with relays(site) as found:
        yield found


@pytest.fixture
def alone(stage: Stage, between: Between) -> Iterator[Stage]:
    """The site's own extender, behind the relays."""
    stage.site.reconfigure(between.settings)
    try:
        yield stage
        stage.finish()
    finally:
        between.disarm()
        stage.site.reconfigure()


def cases(*, quick: bool) -> Iterator[object]:
    for name in STEPS:
        for moment in Passing:
            marks = () if quick and (name, moment) in IN_EVERY_RUN else (pytest.mark.slow,)
            yield pytest.param(name, moment, id=f"{name}-{moment.name}", marks=marks)


def assert_whole(stage: Stage, pods: list[PodRef]) -> None:
    """Hold that all members are bound in the order of ranks, on the one job that was ever made for them."""
    all_bound(stage, pods, timeout_s=WHOLE_WITHIN_S)
    stage.site.wait_for(lambda: len(stage.jobs()) == 1, "one job lives", timeout_s=WHOLE_WITHIN_S)
    stage.site.elapse(SETTLED_S)
    assert_in_rank_order(stage, pods)
    assert stage.made() == [job.job_id for job in stage.jobs()], "a job was submitted twice"
    assert not stage.drained()


def struck(stage: Stage, between: Between, step: str, moment: Passing, kill: Callable[[], None]) -> list[PodRef]:
    """Create a gang, and kill the extender in that moment of that step."""
    blow = Blow(Kth(*STEPS[step]), moment, kill)
    between.arm(blow)
    pods = gang(stage, "ring", SIZE, gated=True)
    fell = blow.struck.wait(60)
    between.disarm()
    assert fell, f"no request of {step} within a minute: {stage.site.picture()}"
    return pods


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "26.05-allocation", "26.05-external"))
@pytest.mark.parametrize(("step", "moment"), list(cases(quick=True)))
def test_a_kill_at_a_step_of_a_gang_leaves_it_whole_on_one_job(
    alone: Stage, between: Between, step: str, moment: Passing
) -> None:
    site = alone.site
    pods = struck(alone, between, step, moment, site.kill_extender)
    site.start_extender()
    assert_whole(alone, pods)


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("k", range(1, SIZE))
def test_a_kill_after_k_votes_leaves_a_gang_whole_on_one_job(alone: Stage, k: int) -> None:
    site = alone.site
    with ExitStack() as refused:
        pods = voted(alone, k, refused)
        site.kill_extender()
        site.start_extender()
        site.elapse(SETTLED_S)
        assert not any(nodes_of(alone, pods))
    assert_whole(alone, pods)


def voted(stage: Stage, k: int, refused: ExitStack) -> list[PodRef]:
    """A gang of which kube-scheduler has accepted k members; the nodes of the others are tainted until `refused` ends.

    kube-scheduler repeats the extender's answer in an Event.
    """
    site = stage.site
    with before_binding(stage, "ring", SIZE) as (pods, job):
        nodes = nodes_of_job(stage, job)
        refused.enter_context(changed(site, dict.fromkeys(nodes[k:], TAINT)))
        site.elapse(SETTLED_S)
    said = f"{k} of {SIZE} members of the gang have a node"
    site.wait_for(lambda: any(said in text for pod in pods for _, text in site.events(pod)), said, timeout_s=30)
    return pods


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize(("step", "moment"), list(cases(quick=False)))
def test_a_kill_of_the_leader_of_two_at_a_step_of_a_gang_leaves_it_whole_on_one_job(
    stage: Stage, between: Between, step: str, moment: Passing
) -> None:
    assert_whole_after_a_kill_of_one_of_two(stage, between, step, moment, LEADER)


# The moment at which a request has its effect and nobody knows of it: the other two are alike in each mode.
@pytest.mark.slow
@pytest.mark.modes("allocation", "external")
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_of_the_leader_of_two_before_it_sees_an_answer_leaves_a_gang_whole_in_each_mode(
    stage: Stage, between: Between, step: str
) -> None:
    assert_whole_after_a_kill_of_one_of_two(stage, between, step, Passing.SENT, LEADER)


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_of_the_follower_while_the_leader_loses_an_answer_leaves_a_gang_whole_on_one_job(
    stage: Stage, between: Between, step: str
) -> None:
    assert_whole_after_a_kill_of_one_of_two(stage, between, step, Passing.SENT, FOLLOWER)


def assert_whole_after_a_kill_of_one_of_two(
    stage: Stage, between: Between, step: str, moment: Passing, killed: str
) -> None:
    """Kill this replica in that moment of that step, and hold that the gang is whole while it is away."""
    with instead_of_its_own(stage.site), two(stage.site, between.settings, by_turns=False) as replicas:
        pods = struck(stage, between, step, moment, replicas[killed].kill)
        assert_whole(stage, pods)
        replicas[killed].start()
        stage.finish()


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("step", RESUMED)
def test_kills_of_a_leader_and_of_the_next_one_at_a_step_of_a_gang_leave_it_whole_on_one_job(
    stage: Stage, between: Between, step: str
) -> None:
    with instead_of_its_own(stage.site), two(stage.site, between.settings, by_turns=False) as replicas:
        pods = struck(stage, between, step, Passing.SENT, replicas[LEADER].kill)
        wire, _ = STEPS[step]
        again = Blow(Kth(wire, 1), Passing.BEFORE, replicas[FOLLOWER].kill)
        between.arm(again)
        fell = again.struck.wait(60)
        between.disarm()
        assert fell, f"the next leader had no request of {step} left: {stage.site.picture()}"
        for replica in replicas.values():
            replica.start()
        assert_whole(stage, pods)
        stage.finish()


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("killed", [LEADER, FOLLOWER], ids=["leader", "follower"])
@pytest.mark.parametrize("k", range(1, SIZE))
def test_a_kill_of_one_of_two_after_k_votes_leaves_a_gang_whole_on_one_job(stage: Stage, k: int, killed: str) -> None:
    with instead_of_its_own(stage.site), two(stage.site, by_turns=False) as replicas:
        with ExitStack() as refused:
            pods = voted(stage, k, refused)
            replicas[killed].kill()
        assert_whole(stage, pods)
        replicas[killed].start()
        stage.finish()


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("moment", list(Passing))
def test_a_kill_while_a_gang_returns_a_node_leaves_the_node_to_slurm_and_the_other_member_to_the_gang(
    alone: Stage, between: Between, moment: Passing
) -> None:
    site, said = alone.site, {GANG: "ring", GANG_SIZE: "2"}
    stays = alone.pod("ring-0", annotations=said)
    leaves = alone.pod("ring-1", annotations=said | {RUN_FOR: "5s"})
    node, _ = all_bound(alone, [stays, leaves])
    (job,) = alone.jobs()
    blow = Blow(Wire("POST", r"/job/\d+", says='"required_nodes"'), moment, site.kill_extender)
    between.arm(blow)
    fell = blow.struck.wait(60)
    between.disarm()
    assert fell, f"no node was returned within a minute: {site.picture()}"
    site.start_extender()
    own = {slurm_name(node)}
    site.wait_for(
        lambda: [(one.job_id, site.expand(one.node)) for one in alone.jobs()] == [(job.job_id, own)],
        "the job has the node of its other member alone",
        timeout_s=HELD_S,
    )
    assert site.node_of(stays) == node
