"""Jobs have a script until the fence script has called for the node, and again once it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extender.domain.jobs.identity import decode_mark, hook_token
from extender.domain.jobs.job import Mode
from extender.domain.nodes.fence_evidence import FenceProofs, FenceScript
from extender.domain.wellknown import FENCE_EVIDENCE
from simulator.cluster import CLUSTER, HOOK_KEY, SCHEDULER, simulated_cluster
from simulator.kube.objects import Json
from simulator.slurm.faults import SlurmFault
from simulator.slurm.job_lifecycle import Scripts, SimConfig
from simulator.slurm.records import SimNode
from tests.builders.process_site import SITE_KEY, Site

pytestmark = pytest.mark.looptime

KILL_WAIT_S = 10.0
SHORT = f"fences: {{callWithin: 20s}}\nslurm: {{killWait: {KILL_WAIT_S:g}s}}\n"


class UnprovenSite(Site):
    """A new installation: nothing is known of any fence."""

    fences_proven = False

    def node(self, name: str = "n1") -> Json:
        node = self.kube.node(name)
        assert node is not None
        return node

    def evidence(self, name: str = "n1") -> str:
        """What stands on a Node of its fence."""
        return str((self.node(name)["metadata"].get("annotations") or {}).get(FENCE_EVIDENCE, ""))

    async def place(self, name: str, cpu: str = "1") -> Mode | None:
        """Place a Pod; the mode of its job."""
        self.kube.add_pod(name, grace_s=1, cpu=cpu)
        await self.bound(name)
        return self.placeholder(name).mode

    async def end(self, name: str) -> None:
        """End a Pod, and wait until its job is over and the node's scripts have run."""
        self.kube.delete_pod(name)
        await self.until(lambda: not self.live_jobs(), f"the end of the job of {name}")
        await asyncio.sleep(10)

    async def place_and_end(self, name: str) -> Mode | None:
        found = await self.place(name)
        await self.end(name)
        return found


@asynccontextmanager
async def new_site(
    tmp_path: Path, *, fenced: bool, nodes: int = 1, external: bool = False
) -> AsyncIterator[UnprovenSite]:
    key = tmp_path / "site-key"
    key.write_text(SITE_KEY)
    made = [SimNode(f"n{number}", cpus=8, memory_mb=64_000, external=external) for number in range(1, nodes + 1)]
    config = SimConfig(kill_wait_s=KILL_WAIT_S)
    fence_key = SITE_KEY if fenced else ""
    async with simulated_cluster(UnprovenSite, nodes=made, slurm_config=config, fence_key=fence_key) as site:
        site.config = site.config.replace("key: secret", f"key: secret, siteKeyFile: {key}, wait: 8s")
        site.config = site.config.replace("user: root", f"user: root, killWait: {KILL_WAIT_S:g}s")
        site.config += "fences: {callWithin: 20s}\n"
        yield site


@pytest.fixture
async def fenced(tmp_path: Path) -> AsyncIterator[UnprovenSite]:
    """One node, with the fence script in each of its places."""
    async with new_site(tmp_path, fenced=True) as site:
        yield site


async def test_in_a_default_installation_every_job_has_a_script(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=False) as site, site.running():
        assert [await site.place_and_end(f"web-{number}") for number in range(3)] == [Mode.BATCH] * 3
        assert site.evidence() == ""
        assert await site.metric('fence_nodes{state="unfenced"}') == 1


async def test_the_first_call_of_the_fence_script_is_the_evidence_for_the_next_job(fenced: UnprovenSite) -> None:
    async with fenced.running():
        assert [await fenced.place_and_end(f"web-{number}") for number in range(3)] == [
            Mode.BATCH,
            Mode.ALLOCATION,
            Mode.ALLOCATION,
        ]
        assert await fenced.metric('fence_nodes{state="fenced"}') == 1


async def test_evidence_survives_a_restart(fenced: UnprovenSite) -> None:
    async with fenced.running():
        await fenced.place_and_end("first")
    assert fenced.evidence()
    async with fenced.running():
        assert await fenced.place("second") is Mode.ALLOCATION


async def test_evidence_is_written_rarely(fenced: UnprovenSite) -> None:
    async with fenced.running():
        await fenced.place_and_end("web-0")
        fenced.kube.requests.clear()
        for number in range(1, 5):
            await fenced.place_and_end(f"web-{number}")
        assert not [one for one in fenced.kube.requests if one.method == "PATCH" and "/nodes/" in one.path]


async def test_an_end_without_a_call_takes_the_evidence_back(fenced: UnprovenSite) -> None:
    async with fenced.running():
        await fenced.place_and_end("first")
        assert await fenced.place("second") is Mode.ALLOCATION
        fenced.slurm.controller.reconfigure(Scripts())  # an administrator took the script out of slurm.conf
        await fenced.end("second")
        await fenced.until(lambda: not fenced.evidence(), "no evidence on the Node", within=60)
        assert await fenced.place("third") is Mode.BATCH


async def test_evidence_expires(fenced: UnprovenSite) -> None:
    fenced.config = fenced.config.replace("fences: {", "fences: {evidence: 300s, ")
    async with fenced.running():
        await fenced.place_and_end("first")
        await asyncio.sleep(300)
        assert await fenced.place_and_end("second") is Mode.BATCH
        assert await fenced.place("third") is Mode.ALLOCATION


async def test_a_fence_lost_between_submission_and_grant_releases_the_allocation(fenced: UnprovenSite) -> None:
    fenced.config = fenced.config.replace("fences: {", "fences: {evidence: 300s, ")
    async with fenced.running():
        await fenced.place_and_end("first")
        await asyncio.sleep(285)
        fenced.slurm.restd.faults.add(SlurmFault.DELAY, "GET", "/job/", seconds=4.0, times=2)
        fenced.slurm.restd.faults.add(SlurmFault.DELAY, "POST", "/job/allocate", seconds=4.0, times=1)
        await fenced.place("second")
        assert "SlurmAllocationReleased" in fenced.events("second")
        assert any("lost its working fence" in note for note in fenced.notes("second"))


async def test_where_a_part_of_the_nodes_is_fenced_a_job_that_need_not_wait_gets_one_of_them(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=True, nodes=2) as site, site.running():
        await site.place_and_end("first")
        proven = "n1" if site.evidence("n1") else "n2"
        assert await site.place("second", cpu="8") is Mode.ALLOCATION
        assert site.node_of("second") == proven
        site.kube.add_pod("large", cpu="7")
        assert await site.bound("large") != proven, "a job that has to wait may get any node"
        assert site.placeholder("large").mode is Mode.BATCH


@pytest.mark.parametrize(
    "forged",
    [
        "slurm: v1.{at}.{at}." + "0" * 64,
        FenceProofs([b"guessed"], CLUSTER, SCHEDULER).written("{uid}", "n1", {FenceScript.EPILOG: 1e9}),
        "slurm: " + "v1." * 50_000,
    ],
    ids=["no proof", "another key", "long"],
)
async def test_an_annotation_that_a_kubelet_wrote_is_no_evidence(tmp_path: Path, forged: str) -> None:
    async with new_site(tmp_path, fenced=False) as site:
        uid, at = site.node()["metadata"]["uid"], str(int(site.kube.wall()))
        text = forged.replace("{uid}", uid).replace("{at}", at)
        site.edit_node("n1", lambda node: node["metadata"].setdefault("annotations", {}).update({FENCE_EVIDENCE: text}))
        async with site.running():
            assert await site.place("web") is Mode.BATCH


@pytest.mark.parametrize(
    ("key", "owner", "age_s", "left"),
    [
        ("a replaced key", SCHEDULER, 0.0, False),
        (HOOK_KEY, SCHEDULER, 400.0, False),
        (HOOK_KEY, SCHEDULER, -3600.0, False),
        (HOOK_KEY, SCHEDULER, 0.0, True),
        ("a replaced key", "another", 0.0, True),
    ],
    ids=["another key", "expired", "of the future", "valid", "of another extender"],
)
async def test_an_own_annotation_that_is_no_evidence_is_removed(
    tmp_path: Path, key: str, owner: str, age_s: float, left: bool
) -> None:
    async with new_site(tmp_path, fenced=False) as site:
        site.config = site.config.replace("fences: {", "fences: {evidence: 300s, ")
        uid, calls = site.node()["metadata"]["uid"], {FenceScript.EPILOG: site.kube.wall() - age_s}
        text = FenceProofs([key.encode()], CLUSTER, owner).written(uid, "n1", calls)
        site.edit_node("n1", lambda node: node["metadata"].setdefault("annotations", {}).update({FENCE_EVIDENCE: text}))
        async with site.running():
            await asyncio.sleep(30)
            assert site.evidence() == (text if left else "")


async def test_evidence_of_another_node_copied_to_this_one_is_none(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=True, nodes=2) as site:
        async with site.running():
            await site.place_and_end("first")
        proven, other = ("n1", "n2") if site.evidence("n1") else ("n2", "n1")
        text = site.evidence(proven)
        site.edit_node(other, lambda node: node["metadata"].update(annotations={FENCE_EVIDENCE: text}))
        site.edit_node(proven, lambda node: node["metadata"].update(annotations={}))
        async with site.running():
            assert await site.place("second") is Mode.BATCH


async def test_calls_without_the_site_key_are_no_evidence(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=False) as site, site.running():
        await site.place("first")
        (job,) = site.live_jobs()
        mark = decode_mark(job.admin_comment)
        assert mark is not None
        token = hook_token(HOOK_KEY.encode(), mark)
        for shown in ("", "guessed", token):
            await site.post(f"/hooks/jobs/{job.job_id}/teardown?node=n1", shown)
            await site.post(f"/hooks/nodes/n1/clear?jobs={job.job_id}", shown)
        await site.end("first")
        assert await site.place("second") is Mode.BATCH


async def test_calls_for_jobs_and_nodes_that_do_not_match_are_no_evidence_and_are_not_kept(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=False, nodes=2) as site, site.running():
        await site.place("first")
        (job,) = site.live_jobs()
        other = "n2" if job.nodes == ("n1",) else "n1"
        await site.post(f"/hooks/jobs/{job.job_id}/teardown?node={other}", SITE_KEY)
        for number in range(100):
            await site.post(f"/hooks/jobs/{10_000 + number}/teardown?node=n1", SITE_KEY)
        named = ",".join(str(20_000 + number) for number in range(700))
        await site.post(f"/hooks/nodes/n1/clear?jobs={named}", SITE_KEY)
        assert await site.metric('fence_nodes{state="fenced"}') == 0


async def test_on_nodes_without_slurmd_the_first_pod_gets_an_event_that_nothing_holds_them(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=False, external=True) as site, site.running():
        assert await site.place("first") is Mode.EXTERNAL
        await site.until(lambda: "NoWorkingFence" in site.events("first"), "the Event")
        checks = (await site.get(8081, "/readyz?verbose")).text
        assert "nodes without slurmd, without a working fence: n1" in checks
        assert await site.place("second") is Mode.EXTERNAL
        assert "NoWorkingFence" not in site.events("second")


async def test_prologslurmctld_is_the_fence_of_nodes_without_slurmd(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=True, external=True) as site, site.running():
        assert await site.place_and_end("first") is Mode.EXTERNAL
        assert await site.metric('fence_nodes{state="fenced"}') == 1
        assert "without a working fence" not in (await site.get(8081, "/readyz?verbose")).text
