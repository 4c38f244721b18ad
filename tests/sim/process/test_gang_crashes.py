"""No gang stays bound in part: the process dies, or the API server refuses a Binding, when some members are bound."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from extender.domain.wellknown import GATE
from simulator.kube.faults import KubeFault
from simulator.kube.objects import Json
from simulator.slurm.records import SimNode
from tests.builders.actions import observe_operations
from tests.builders.crash_points import Moment, ProcessKiller
from tests.builders.gang_pods import bound, gang
from tests.builders.process_site import Site, a_site

pytestmark = pytest.mark.looptime

SIZE = 3
TAINT = {"key": "x", "value": "y", "effect": "NoSchedule"}


class NthRequestKiller(ProcessKiller):
    """End the process the k-th time that its moment comes."""

    def __init__(self, operation: str, moment: Moment, k: int) -> None:
        super().__init__(operation, moment)
        self._left = k

    def _is_it(self, operation: str, moment: Moment) -> bool:
        if not super()._is_it(operation, moment):
            return False
        self._left -= 1
        return self._left == 0


async def whole(site: Site, names: list[str]) -> None:
    """All members run on the one job of the gang, each on a node of its own."""
    nodes = {await site.bound(name, within=30) for name in names}
    await asyncio.sleep(60)
    assert site.drained() == []
    (job,) = site.live_jobs()
    assert (len(nodes), set(job.nodes)) == (len(names), nodes)
    assert all("deletionTimestamp" not in site.pod(name)["metadata"] for name in names)


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("k", range(1, SIZE + 1))
async def test_edge_case_9_a_crash_at_the_kth_binding_leaves_a_whole_gang_on_its_job(
    site: Site, monkeypatch: pytest.MonkeyPatch, k: int, moment: Moment
) -> None:
    killer = NthRequestKiller("Pods.bind", moment, k)
    observer: list[ProcessKiller] = [killer]
    observe_operations(monkeypatch, lambda: observer[0] if observer else None)
    async with site.dying(tap=killer.tap) as die:
        killer.end_process = die
        killer.arm()
        names = gang(site, range(SIZE), SIZE)
        await site.until(lambda: killer.fired, "the kill")
    before = [job.job_id for job in site.live_jobs()]
    observer.clear()
    async with site.running():
        await whole(site, names)
        assert [job.job_id for job in site.live_jobs()] == before


@pytest.mark.parametrize("k", range(1, SIZE))
async def test_edge_case_12_a_crash_when_k_members_have_voted_binds_all_of_them_afterwards(site: Site, k: int) -> None:
    async with site.dying():
        names = gang(site, range(SIZE), SIZE, gates=(GATE,))
        for number in range(k, SIZE):
            site.edit_node(f"n{number + 1}", lambda node: node["spec"].update(taints=[TAINT]))
        ballots = site.extender.gang_barrier._ballots
        await site.until(lambda: sum(len(one.votes) for one in ballots.values()) == k, f"{k} votes", every=0.05)
        assert bound(site, names) == 0
    before = [job.job_id for job in site.live_jobs()]
    async with site.running():
        await asyncio.sleep(15)  # within gangs.bindWithin
        assert bound(site, names) == 0
        for number in range(k, SIZE):
            site.edit_node(f"n{number + 1}", lambda node: node["spec"].pop("taints"))
        await whole(site, names)
        assert [job.job_id for job in site.live_jobs()] == before


def eight() -> list[SimNode]:
    return [SimNode(f"n{number}", cpus=8, memory_mb=64_000) for number in range(8)]


@pytest.mark.parametrize("k", range(8))
async def test_a_gang_whose_kth_binding_is_refused_for_good_is_ended_as_a_whole_with_one_cause(k: int) -> None:
    async with a_site(nodes=eight()) as site, site.running():
        site.kube.faults.add(KubeFault("POST", f"/pods/ring-{k}/binding", code=403, reason="Forbidden", times=None))
        names = gang(site, range(8), 8)
        others = [name for name in names if name != f"ring-{k}"]
        await site.until(lambda: bound(site, others) == 7, "the Bindings of the others")
        ended = await ends(site, others, within=60)
        assert max(ended.values()) - min(ended.values()) <= 1.0
        for name in others:
            await site.gone(name)
        assert all(any("cannot start as a whole" in text for text in site.notes(name)) for name in others)
        assert bound(site, [f"ring-{k}"]) == 0


async def test_a_binding_that_is_refused_for_a_while_is_repeated_and_ends_no_pod(site: Site) -> None:
    async with site.running():
        site.kube.faults.add(KubeFault("POST", "/pods/ring-1/binding", code=403, reason="Forbidden", times=2))
        await whole(site, gang(site, range(SIZE), SIZE))


@pytest.mark.parametrize("state", ["PREEMPTED", "TIMEOUT", "CANCELLED", "FAILED"])
async def test_edge_case_18_the_end_of_a_job_reaches_all_members_within_a_second_with_one_cause(
    site: Site, state: str
) -> None:
    async with site.running():
        names = gang(site, range(SIZE), SIZE)
        for name in names:
            await site.bound(name)
        causes: dict[str, set[str]] = {name: set() for name in names}
        site.kube.storage.listen(lambda change: _note(causes, change.object))
        site.slurm.controller.end(site.live_jobs()[0].job_id, state)
        ended = await ends(site, names)
        assert max(ended.values()) - min(ended.values()) <= 1.0
        for name in names:
            await site.gone(name)
        (said,) = {frozenset(of) for of in causes.values()}
        # The Eviction API adds its own reason to that of a cancel.
        assert len([reason for reason in said if "Slurm" in reason]) == 1


def _note(causes: dict[str, set[str]], pod: Json) -> None:
    if pod["metadata"]["name"] in causes:
        for one in (pod.get("status") or {}).get("conditions") or ():
            if one["type"] == "DisruptionTarget":
                causes[pod["metadata"]["name"]].add(one["reason"])


async def ends(site: Site, names: list[str], within: float = 30.0) -> dict[str, float]:
    """When the end of each Pod was requested: its deletion, less its grace."""
    found: dict[str, float] = {}

    def note() -> bool:
        for name in names:
            pod = site.kube.pod(name)
            if pod is not None and "deletionTimestamp" in pod["metadata"] and name not in found:
                at = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]).timestamp()
                found[name] = at - pod["metadata"].get("deletionGracePeriodSeconds", 0)
        return len(found) == len(names)

    await site.until(note, "the end of all", within, every=0.05)
    return found
