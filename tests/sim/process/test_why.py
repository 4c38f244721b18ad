"""A Pod that waits is told why: in its condition, in an Event, and under `/debug`, in the same words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from extender.domain.placeholder import Placeholder
from extender.domain.pods.why import Why
from extender.domain.wellknown import GATE
from extender.engine.engine import Engine
from simulator.kube import pods
from tests.builders.explained import condition, debug, message_of
from tests.builders.gang_pods import gang
from tests.builders.process_site import CONFIG, Site

pytestmark = pytest.mark.looptime

OTHER_GATE = "kueue.x-k8s.io/admission"


def writes_about(site: Site, name: str) -> list[str]:
    return [one.path for one in site.kube.requests if one.method == "PATCH" and f"/pods/{name}" in one.path]


@pytest.mark.parametrize("gates", [(GATE,), ()], ids=["gated", "ungated"])
async def test_a_pod_in_slurms_queue_shows_the_same_everywhere_and_then_that_it_has_its_node(
    site: Site, gates: tuple[str, ...]
) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", cpu="8", gates=gates)
        said = await message_of(site, "web", "SlurmJobQueued")
        (job,) = site.jobs_of("web")
        assert said.startswith(f"Slurm job {job.job_id} waits: ")
        assert "Partition: batch." in said
        await site.until(lambda: said in site.notes("web"), "an Event says so")
        assert (await debug(site, "web"))["why"] == said
        since = condition(site, "web")["lastTransitionTime"]
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("web")
        await site.until(lambda: condition(site, "web").get("status") == "True", "it is told of its node", 30)
        assert condition(site, "web")["reason"] == "Allocated"
        assert condition(site, "web")["lastTransitionTime"] > since


async def test_a_pod_that_is_placed_at_once_has_no_condition(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", gates=[GATE])
        await site.bound("web")
        await asyncio.sleep(60)
        assert condition(site, "web") == {}


async def test_those_before_it_in_the_queue_are_counted(site: Site) -> None:
    async with site.running():
        await site.fill()
        for name in ("one", "two", "three"):
            site.kube.add_pod(name, cpu="8", gates=[GATE])
            await site.until(lambda name=name: bool(site.jobs_of(name)), "its job")  # type: ignore[misc]
        await site.until(
            lambda: "2 other Pods are ahead of it in this partition." in condition(site, "three").get("message", ""),
            "its place",
        )
        site.kube.delete_pod("one", grace_s=1)
        await site.until(
            lambda: "1 other Pod is ahead of it in this partition." in condition(site, "three").get("message", ""),
            "its better place",
        )


async def _gates_of_others(site: Site) -> None:
    site.kube.add_pod("web", gates=[GATE, OTHER_GATE])


async def _too_large(site: Site) -> None:
    site.kube.add_pod("web", cpu="800", gates=[GATE])


async def _bad_settings(site: Site) -> None:
    site.kube.add_pod("web", gates=[GATE], annotations={"slurm-extender.io/mode": "what"})


async def _cancelled(site: Site) -> None:
    await site.fill()
    site.kube.add_pod("web", cpu="8", gates=[GATE])
    await site.until(lambda: bool(site.jobs_of("web")), "its job")
    await asyncio.sleep(2)
    site.slurm.controller.cancel(site.jobs_of("web")[0].job_id)


async def _held(site: Site) -> None:
    await site.fill()
    site.kube.add_pod("web", cpu="8", gates=[GATE])
    await site.until(lambda: bool(site.jobs_of("web")), "its job")
    await site.slurm_request("POST", f"job/{site.jobs_of('web')[0].job_id}", {"hold": True})


async def _away(site: Site) -> None:
    await site.fill()
    site.kube.add_pod("web", cpu="8", gates=[GATE])
    await site.until(lambda: bool(site.jobs_of("web")), "its job")
    site.network.refuse("slurm", 6820)
    site.network.cut("slurm", 6820)


async def _never_offered(site: Site) -> None:
    site.kube.add_pod("web", node_selector={"no": "such-node"})


CAUSES: dict[str, tuple[Callable[[Site], object], str, str]] = {
    "gates of others": (_gates_of_others, "OtherSchedulingGates", OTHER_GATE),
    "no node is large enough": (_too_large, "NoSuitableNode", "800"),
    "settings that cannot be used": (_bad_settings, "InvalidSlurmSettings", "what"),
    "a cancel": (_cancelled, "SlurmJobCancelled", "was cancelled"),
    "a hold": (_held, "SlurmJobHeld", "JobHeld"),
    "Slurm is away": (_away, "SlurmUnreachable", "Slurm has not answered since"),
    "no node is offered": (_never_offered, "NoNodeOffered", "kube-scheduler"),
}


@pytest.mark.parametrize("name", CAUSES)
async def test_a_pod_that_waits_gets_the_cause(site: Site, name: str) -> None:
    begin, cause, words = CAUSES[name]
    async with site.running():
        await begin(site)  # type: ignore[misc]
        said = await message_of(site, "web", cause)
        assert words in said
        shown = (await site.get(8082, "/metrics")).text
        assert f'slurm_extender_pending_pods{{reason="{cause}"}} 1.0' in shown
        await site.until(lambda: any(words in note for note in site.notes("web")), "an Event says so")


@pytest.mark.usefixtures("unhurried")
async def test_a_start_reports_nothing_again(site: Site) -> None:
    async with site.dying():
        await site.fill()
        site.kube.add_pod("web", cpu="8", gates=[GATE])
        said = await message_of(site, "web", "SlurmJobQueued")
        await asyncio.sleep(40)
    site.kube.requests.clear()
    async with site.running():
        await asyncio.sleep(120)
        assert writes_about(site, "web") == []
        assert condition(site, "web")["message"] == said


async def test_a_pod_is_written_to_no_more_often_than_every_half_minute_however_often_its_cause_changes(
    site: Site,
) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", cpu="8", gates=[GATE])
        await message_of(site, "web", "SlurmJobQueued")
        (job,) = site.jobs_of("web")
        site.kube.requests.clear()
        for turn in range(10):
            await site.slurm_request("POST", f"job/{job.job_id}", {"hold": turn % 2 == 0})
            await asyncio.sleep(12)
        assert len(writes_about(site, "web")) <= 5


async def test_many_that_begin_to_wait_get_their_events_one_after_the_other(site: Site) -> None:
    site.config = CONFIG.replace("refreshRate: 2", "refreshRate: 20")
    async with site.running():
        await site.fill()
        for number in range(100):
            site.kube.add_pod(f"web-{number}", cpu="8", gates=[GATE])
        await site.until(lambda: len(site.live_jobs()) == 103, "their jobs")
        site.kube.requests.clear()
        for _ in range(30):
            site.kube.requests.clear()
            await asyncio.sleep(1)
            assert sum(one.path.endswith("/status") for one in site.kube.requests) <= 11
        assert all(condition(site, f"web-{number}") for number in range(100))


def counted_as_waiting(shown: str) -> list[str]:
    return [line for line in shown.splitlines() if line.startswith("slurm_extender_pending_pods{")]


async def test_why_a_gang_waits_is_computed_once_for_all_its_members(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    explain = Engine.explain

    def counted(engine: Engine, p: Placeholder) -> Why:
        computed.append(p.key)
        return explain(engine, p)

    async with site.running():
        await site.fill()
        names = gang(site, range(3), 3, cpu="8", gates=(GATE,))
        for name in names:
            await message_of(site, name, "SlurmJobQueued")
        monkeypatch.setattr(Engine, "explain", counted)
        await asyncio.sleep(10)
        assert 0 < len(computed) <= 14, "about once in each round of a second"


async def test_a_pod_that_is_deleted_while_it_waits_is_counted_no_more(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", cpu="8", gates=[GATE])
        await message_of(site, "web", "SlurmJobQueued")
        assert counted_as_waiting((await site.get(8082, "/metrics")).text)
        site.kube.delete_pod("web", grace_s=1)
        await site.gone("web")
        await asyncio.sleep(5)
        assert counted_as_waiting((await site.get(8082, "/metrics")).text) == []


async def test_a_pod_that_another_client_bound_does_not_wait_for_slurm_any_more(site: Site) -> None:
    async with site.running():
        await site.fill("6")
        site.kube.add_pod("web", cpu="8")
        await message_of(site, "web", "SlurmJobQueued")
        binding = {"metadata": {"name": "web"}, "target": {"name": "n1"}}
        pods.bind(site.kube.storage, pods.pod_key("default", "web"), binding, site.kube.wall())
        said = await message_of(site, "web", "BoundWithoutSlurm")
        assert "does not account for it" in said


async def test_a_pod_whose_allocation_ends_is_not_said_to_have_it(site: Site) -> None:
    site.config = CONFIG.replace("refreshRate: 2", "refreshRate: 2, evictionDeadline: 60s")
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", cpu="8", gates=[GATE], labels={"app": "x"})
        await message_of(site, "web", "SlurmJobQueued")
        site.kube.delete_pod("first-0", grace_s=1)
        await site.until(lambda: condition(site, "web").get("status") == "True", "it is told of its node")
        await site.until(lambda: site.pod("web")["status"]["phase"] == "Running", "it runs: else no budget counts")
        site.add_budget(allowed=0)
        site.slurm.controller.cancel(site.jobs_of("web")[0].job_id)
        assert "cancelled" in await message_of(site, "web", "AllocationEnding")


async def test_the_queue_shows_waiting_pods_by_partition_and_the_use_of_nodes(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", cpu="8")
        await message_of(site, "web", "SlurmJobQueued")
        shown = (await site.get(8083, "/debug/queue")).json()["partitions"]
        batch = next(one for one in shown if one["name"] == "batch")
        assert (batch["waiting"], batch["known"], batch["default"]) == (1, True, True)
        assert batch["placed"] >= 1
        assert batch["cpusUsed"] == batch["cpus"] > 0
        assert sum(batch["reasons"].values()) == 1
        assert (await site.get(8083, "/debug/shares")).status_code == 503
