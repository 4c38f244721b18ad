"""No next job and no next Pod starts on a node before the Pod that ended there is gone, however it ended.

Judged afterwards by the API server's audit log, slurmctld's log and what the next job's script wrote first. A job
starts with the first line of its script; one without, when slurmctld ends CONFIGURING.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from lab.build_slurm import RELEASES
from lab.instants import kube_instants, slurm_instants
from lab.preemption_sites import CHOICE_EXTERNAL, CHOICE_WITH_SLURMD
from lab.site import PodRef, Site
from tests.builders.ends import (
    FENCED_BY_THE_JOB_ITSELF,
    SHORT,
    Arena,
    End,
    Kind,
    arena_site,
    ends,
    play,
    preempt_one_of,
)
from tests.builders.gang_ends import (
    DOWN_REASON,
    GangEnd,
    assert_one_cause,
    begin,
    fenced_gang,
    forget_fences,
    jobs_of,
    prove_fences,
)
from tests.builders.overlaps import Gaps, gaps, overlaps, rows
from tests.e2e.conftest import modes_of

SEED = 1
ENDS = 100
BARE_ENDS = 70
"""At least ten ends of each kind."""

QUICK_IN_A_DEFAULT = [kind for kind in FENCED_BY_THE_JOB_ITSELF if kind in SHORT]

QUICK_BARE = {"26.05"}
"""Where one end of each kind in a default installation is shown in every run."""

IN_EVERY_RUN = {("26.05", "batch")}
"""Where one end of each kind is shown in every run, in a minute and a half; `make prove` shows many of all."""


def _modes(*, quick: bool = False) -> list[Any]:
    return [
        pytest.param(release, mode, marks=_marks(release, mode, quick), id=f"{release}-{mode}")
        for release in RELEASES
        for mode in modes_of(release)
        if mode != "auto"
    ]


def _marks(release: str, mode: str, quick: bool) -> list[pytest.MarkDecorator]:
    return [pytest.mark.lab, *([] if quick and (release, mode) in IN_EVERY_RUN else [pytest.mark.slow])]


GANG_SIZE = 4
GANG_WAITS_S = 5.0
"""Longer than the extender's first pauses between two attempts."""


def _each_release() -> list[Any]:
    return [
        pytest.param(release, marks=[pytest.mark.lab, *([] if release in QUICK_BARE else [pytest.mark.slow])])
        for release in RELEASES
    ]


_numbers = count(1)


@pytest.fixture(scope="module")
def arena(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site where Pods end, with the fence script installed in each of its places."""
    with arena_site(request.param, tmp_path_factory.mktemp("preemption")) as found:
        yield found


@pytest.fixture(scope="module")
def bare_arena(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A default installation: no Epilog, nothing on slurmctld's machine."""
    with arena_site(request.param, tmp_path_factory.mktemp("preemption"), (), warned=False) as found:
        yield found


def judged(site: Site, wanted: list[End]) -> list[Gaps]:
    """Let them happen, and look up what the logs say."""
    found = play(site, wanted, site.namespace(f"ends-{next(_numbers)}"))
    assert len(found) == len(wanted)
    assert not [ended.trouble for ended in found if ended.trouble], "another Pod, job or drain was affected"
    kube, slurm = kube_instants(site.kube.home), slurm_instants(site.slurm.home / "log" / "slurmctld.log")
    assert not slurm.epilog_errors
    assert not site.slurm.run("sinfo", "-h", "-R", "-o", "%N %E").strip(), "a node stayed drained"
    return [gaps(ended, kube, slurm) for ended in found]


@pytest.mark.parametrize(("arena", "mode"), _modes(quick=True), indirect=["arena"], scope="module")
def test_nothing_starts_before_the_ended_pod_is_gone_one_of_each(arena: Site, mode: str) -> None:
    assert not overlaps(judged(arena, ends(mode, 0, SEED, once=True, among=SHORT)))


@pytest.mark.parametrize(("arena", "mode"), _modes(), indirect=["arena"], scope="module")
def test_nothing_starts_before_the_ended_pod_is_gone_many_ends(
    arena: Site, mode: str, record_property: Callable[[str, object], None]
) -> None:
    found = judged(arena, ends(mode, ENDS, SEED))
    for row in rows(found):
        record_property("table: Ends of Pods with work queued for their node", {"mode": mode, **row})
    assert not overlaps(found)


@pytest.mark.lab
@pytest.mark.parametrize(
    "bare_arena",
    [pytest.param(release, marks=[] if release in QUICK_BARE else [pytest.mark.slow]) for release in RELEASES],
    indirect=True,
    scope="module",
)
def test_in_a_default_installation_nothing_starts_before_the_ended_pod_is_gone_one_of_each(bare_arena: Site) -> None:
    assert not overlaps(judged(bare_arena, ends("auto", 0, SEED, once=True, among=QUICK_IN_A_DEFAULT)))


@pytest.mark.slow
@pytest.mark.lab
@pytest.mark.parametrize("bare_arena", RELEASES, indirect=True, scope="module")
def test_in_a_default_installation_nothing_starts_before_the_ended_pod_is_gone_many_ends(
    bare_arena: Site, record_property: Callable[[str, object], None]
) -> None:
    found = judged(bare_arena, ends("auto", BARE_ENDS, SEED, among=FENCED_BY_THE_JOB_ITSELF))
    for row in rows(found):
        record_property("table: Ends of Pods in a default installation", {"mode": "auto", **row})
    assert not overlaps(found)


@pytest.mark.parametrize("arena", _each_release(), indirect=True, scope="module")
def test_a_gang_gets_no_job_before_the_fence_of_each_of_its_nodes_has_been_seen_to_work(arena: Site) -> None:
    own, where = CHOICE_WITH_SLURMD, arena.namespace(f"unproven-{next(_numbers)}")
    forget_fences(arena, own.nodes)
    pods = fenced_gang(arena, GangEnd.CANCEL, GANG_SIZE, "batch", own.never_preempted, where)
    told = arena.event(pods[0], "SlurmRetrying")
    assert "GangNeedsFence: install the fence script on choice-1, choice-2, choice-3, choice-4" in told
    arena.elapse(GANG_WAITS_S)
    assert jobs_of(arena, where) == []
    prove_fences(arena, own.nodes[1:], "batch", own.never_preempted, where)
    arena.elapse(GANG_WAITS_S)
    assert jobs_of(arena, where) == [], "one of its nodes has no evidence"
    prove_fences(arena, own.nodes[:1], "batch", own.never_preempted, where)
    assert sorted(arena.bound(pod, timeout_s=120) for pod in pods) == sorted(own.nodes)
    end_of(arena, pods)


@pytest.mark.parametrize(
    "end",
    [GangEnd.PREEMPT, GangEnd.NODE_DOWN, pytest.param(GangEnd.LIMIT, marks=pytest.mark.slow)],
    ids=lambda e: e.name,
)
@pytest.mark.parametrize(("arena", "mode"), _modes(quick=True), indirect=["arena"], scope="module")
def test_what_ends_the_job_of_a_gang_ends_every_member_with_one_cause(arena: Site, mode: str, end: GangEnd) -> None:
    own = CHOICE_EXTERNAL if mode == "external" else CHOICE_WITH_SLURMD
    where = arena.namespace(f"one-cause-{next(_numbers)}")
    prove_fences(arena, own.nodes, mode, own.never_preempted, where)
    pods = fenced_gang(arena, end, GANG_SIZE, mode, own.preempted_at_once, where, cpus=14)
    for pod in pods:
        arena.bound(pod, timeout_s=120)
    (job,) = jobs_of(arena, where)
    native = [Arena(arena, own.nodes[1], where).submit(mode, own.preempting, 7)] if end is GangEnd.PREEMPT else []
    begin(arena, end, job, own)
    assert_one_cause(arena, end, pods)
    for pod in pods:
        arena.gone(pod, timeout_s=150)
    for job_id in native:
        Arena(arena, own.nodes[1], where).running(job_id)
        arena.slurm.run("scancel", str(job_id))
    end_of(arena, pods)


def end_of(site: Site, pods: list[PodRef]) -> None:
    """Leave the site as it was."""
    for pod in pods:
        site.delete(pod)
    for pod in pods:
        site.gone(pod, timeout_s=60)
    for line in site.slurm.run("sinfo", "-h", "-R", "-o", "%N %E").splitlines():
        node, _, reason = line.partition(" ")
        if reason.strip() == DOWN_REASON:
            site.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    site.wait_for(lambda: not site.squeue(), "no job is left", timeout_s=60)
    site.wait_for(lambda: not site.slurm.run("sinfo", "-h", "-R", "-o", "%N %E").strip(), "no node is drained or down")


@pytest.mark.parametrize("kind", [Kind.WARNED, Kind.PREEMPT])
@pytest.mark.parametrize(("arena", "mode"), _modes(), indirect=["arena"], scope="module")
def test_one_preemptor_costs_no_bystander(
    arena: Site, mode: str, kind: Kind, record_property: Callable[[str, object], None]
) -> None:
    own = CHOICE_EXTERNAL if mode == "external" else CHOICE_WITH_SLURMD
    lost, seconds = preempt_one_of(arena, own, mode, kind, arena.namespace(f"choice-{next(_numbers)}"), grace_s=12)
    row = {"mode": mode, "preemption": str(kind), "victims": str(lost), "until the preemptor ran, s": f"{seconds:.1f}"}
    record_property("table: Victims of one preemptor among four nodes full of Pods", row)
    assert lost <= (1 if kind is Kind.WARNED else 2)
