"""Gangs on real kubelets, with a working fence on each node: no process of a next job runs beside one of a member."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from lab.build_slurm import RELEASES
from lab.kubelet_site import KubeletSite
from lab.pods import container
from lab.site import PodRef, QueuedJob
from tests.builders.ends import partitions_for
from tests.builders.gang_ends import GangEnd, assert_one_cause, begin, fenced_gang, jobs_of, prove_fences
from tests.builders.process_ends import PROBE, VICTIM_CPUS, RealArena, real_site

pytestmark = [pytest.mark.lab, pytest.mark.kubelet]

SIZE = 3
GRACE_S = 6
LATEST = "26.05"
STAYS, LEAVES = "-linger -1s", "-run-for 5s"
"""Options of a probe: it ignores SIGTERM, and so lives for its whole grace; or it succeeds by itself."""

QUICK = {(LATEST, "batch", GangEnd.CANCEL), (LATEST, "batch", GangEnd.SHRINK)}
ENDS = (GangEnd.CANCEL, GangEnd.PREEMPT, GangEnd.LIMIT, GangEnd.SHRINK, GangEnd.TAKEN)

_numbers = count(1)


def _cases() -> list[Any]:
    """All ends in mode `batch`, and a cancel of a job on external nodes."""
    cases = [(release, "batch", end) for release in RELEASES for end in ENDS]
    return [
        pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.slow], id=f"{case[0]}-{case[1]}-{case[2].name}")
        for case in [*cases, (LATEST, "external", GangEnd.CANCEL)]
    ]


@pytest.fixture(scope="module")
def three(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletSite]:
    """A site of three real nodes of each kind, with the fence script and without `gangs.unfenced: allow`."""
    with real_site(request.param, tmp_path_factory.mktemp("gangs"), nodes=SIZE) as found:
        yield found


def member(site: KubeletSite, node: str, name: str, options: str) -> dict[str, Any]:
    """Return fields of a Pod whose only process is a probe that keeps its files in the folder of whichever node.

    `node`: any of them.
    """
    script = f'exec {PROBE}/"$NODE"/probe -folder {PROBE}/"$NODE" -name {name} {options}'
    env = [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    mounts = [{"name": "probe", "mountPath": PROBE}]
    folder = site.probe_folder(node).parent
    return {
        "cpus": VICTIM_CPUS,
        "memory": "256Mi",
        "containers": [container(script, cpus=VICTIM_CPUS, memory="256Mi", env=env, volumeMounts=mounts)],
        "volumes": [{"name": "probe", "hostPath": {"path": str(folder), "type": "Directory"}}],
        "enableServiceLinks": False,
    }


def started_gang(
    site: KubeletSite, end: GangEnd, mode: str, where: str
) -> tuple[list[PodRef], list[RealArena], QueuedJob]:
    """Start a gang whose members are probes named as their Pods. Return them, their nodes by rank, and their job."""
    own = partitions_for(mode)
    nodes = [name for name in site.nodes if name.startswith(f"{own.prefix}arena")]
    for node in nodes:
        site.probe_folder(node)
    prove_fences(
        site,
        nodes,
        mode,
        own.preempted_at_once,
        where,
        grace_s=1,
        containers=[container("exec sleep 60", memory="64Mi")],
    )
    pods = []
    for rank in range(SIZE):
        options = LEAVES if end is GangEnd.SHRINK and rank == SIZE - 1 else STAYS
        spec = member(site, nodes[0], f"{where}-{rank}", options)
        pods += fenced_gang(site, end, SIZE, mode, own.preempted_at_once, where, ranks=[rank], grace_s=GRACE_S, **spec)
    arenas = [RealArena(site, site.bound(pod, timeout_s=120), where) for pod in pods]
    for rank, arena in enumerate(arenas):
        arena.started(f"{where}-{rank}")
    (job,) = jobs_of(site, where)
    return pods, arenas, job


def gap(arena: RealArena, next_job: int, mode: str, probe: str) -> float:
    """Return the seconds from the last sign of life of a member's probe to the start of the next job on its node."""
    arena.running(next_job)
    started = arena.configured(next_job) if mode == "external" else arena.started(f"job-{next_job}")
    return started - arena.stamp(probe, "alive")


def leave_as_it_was(site: KubeletSite, pods: Sequence[PodRef], jobs: Sequence[int]) -> None:
    for job_id in jobs:
        site.slurm.run("scancel", str(job_id))
    for pod in pods:
        site.delete(pod)
    for pod in pods:
        site.gone(pod, timeout_s=90)

    def idle() -> bool:
        return not site.squeue() and not site.slurm.run("sinfo", "-h", "-R", "-o", "%E").strip()

    site.wait_for(idle, "no job is left, and no node is drained", timeout_s=90, every_s=0.3)


@pytest.mark.parametrize(("three", "mode", "end"), _cases(), indirect=["three"], scope="module")
def test_no_job_starts_on_a_node_of_a_gang_beside_a_process_of_its_member(
    three: KubeletSite, mode: str, end: GangEnd, record_property: Callable[[str, object], None]
) -> None:
    site, own, where = three, partitions_for(mode), three.namespace(f"gang-{next(_numbers)}")
    pods, arenas, job = started_gang(site, end, mode, where)
    partition = own.preempting if end is GangEnd.PREEMPT else own.preempted_at_once
    left = list(enumerate(arenas))[-1:] if end.keeps_the_others else list(enumerate(arenas))
    native = {rank: arena.submit(mode, partition) for rank, arena in left}
    begin(site, end, job, own)
    if end.keeps_the_others:
        site.wait_for(lambda: site.expand(jobs_of(site, where)[0].node) == {one.node for one in arenas[:-1]}, "shrunk")
    else:
        assert_one_cause(site, end, pods)
    gaps = {rank: gap(arena, native[rank], mode, f"{where}-{rank}") for rank, arena in left}
    overlaps = [line for _, arena in left if (line := arena.take_overlaps())]
    if end.keeps_the_others:
        assert {job.job_id} == {one.job_id for one in jobs_of(site, where)}, "the other members go on"
        assert [(site.read(pod) or {})["status"]["phase"] for pod in pods[:-1]] == ["Running"] * (SIZE - 1)
    leave_as_it_was(site, pods, list(native.values()))
    row = {
        "Slurm": site.release,
        "mode": mode,
        "end": str(end),
        "nodes": str(len(gaps)),
        "overlaps": str(len(overlaps)),
    }
    row["smallest gap, s"] = f"{min(gaps.values()):.2f}"
    record_property("table: Ends of gangs with real processes, and the next job of each node", row)
    assert not overlaps
    assert min(gaps.values()) >= 0, gaps
