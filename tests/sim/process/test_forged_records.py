"""Whatever a Pod's author writes about jobs and nodes: no node is held for it, and nothing of others is ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from extender.domain.pods.allocation_record import AllocationRecords
from simulator.slurm.records import SimNode
from tests.builders.process_site import CLUSTER, CONFIG, NAMES, Site, unhurried_site
from tests.builders.replicas import replicas

pytestmark = pytest.mark.looptime
JOB_ID = "status.slurm-extender.io/job-id"
NODE = "status.slurm-extender.io/node"
POD = "status.slurm-extender.io/pod-uid"
SLURM_NODE = "status.slurm-extender.io/slurm-node"
PROOF = "status.slurm-extender.io/allocation-proof"
MODE = "slurm-extender.io/mode"
KEYED = "key: secret"
FORGERS = 6


def forge(site: Site, number: int, job_id: int = 99_999) -> str:
    """Create a Pod on the first node that names a job there, and says it is on another Slurm node."""
    name = f"forged-{number}"
    said = {JOB_ID: str(job_id), NODE: NAMES[0], SLURM_NODE: NAMES[number % len(NAMES)], PROOF: "v1." + "0" * 64}
    site.kube.add_pod(name, cpu="1m", annotations=said, node=NAMES[0], grace_s=600)
    site.edit_pod(name, lambda pod: pod["metadata"]["annotations"].update({POD: pod["metadata"]["uid"]}))
    return name


@pytest.mark.parametrize("restart", [False, True])
async def test_a_pod_that_slurm_did_not_place_holds_no_node_when_it_is_removed_by_force(
    site: Site, restart: bool
) -> None:
    site.kubelets.stop_s = 10**6
    async with site.dying() as die:
        await site.until(lambda: site.extender.ready, "readiness")
        forged = [forge(site, number) for number in range(FORGERS)]
        plain = [f"plain-{number}" for number in range(FORGERS)]
        for name in plain:
            site.kube.add_pod(name, cpu="1m", node=NAMES[0], grace_s=10**8)
        if restart:
            die()
            await asyncio.sleep(1)
        else:
            for name in forged[:3]:
                site.kube.delete_pod(name, grace_s=0)
            await asyncio.sleep(30)
            assert not site.drained()
    async with site.running():
        for name in [*forged[3:], *plain]:
            site.kube.delete_pod(name, grace_s=0)
        await asyncio.sleep(30)
        assert not site.drained()


async def test_a_finalizer_lets_no_record_hold_a_node_longer_than_its_pod_runs(site: Site) -> None:
    """A Pod with a finalizer is not removed by force: its kubelet ends it, and then its phase says so."""
    site.kubelets.stop_s = 5
    async with site.running():
        site.kube.add_pod("placed", cpu="2", grace_s=600)
        await site.bound("placed")
        await site.until(lambda: site.pod("placed")["status"]["phase"] == "Running", "a running Pod")
        forged = [forge(site, number) for number in range(FORGERS)]
        for name in ("placed", *forged):
            site.edit_pod(name, lambda pod: pod["metadata"].update(finalizers=["example.com/kept"]))
            site.kube.delete_pod(name, grace_s=0)
        await site.until(lambda: not site.live_jobs(), "the end of the job", within=60)
        await site.until(lambda: not site.drained(), "no drain", within=10)
        await asyncio.sleep(120)
        assert not site.drained()
        assert all(site.pod(name)["metadata"]["deletionTimestamp"] for name in ("placed", *forged))


def mass_deletion_guard_is_engaged(site: Site) -> bool:
    return site.extender.mass_deletion_guard.engaged


@pytest.mark.parametrize("restart", [False, True])
async def test_pods_with_forged_records_hold_no_node_and_engage_no_mass_deletion_guard(
    site: Site, restart: bool
) -> None:
    site.kubelets.stop_s = 10**6  # deaf to SIGTERM
    async with site.dying() as die:
        await site.until(lambda: site.extender.ready, "readiness")
        forged = [forge(site, number) for number in range(FORGERS)]
        if restart:
            die()
        await asyncio.sleep(30)
    async with site.running():
        await site.until(lambda: all("BoundWithoutSlurm" in site.events(name) for name in forged), "the word on each")
        assert not site.drained()
        site.kube.add_pod("innocent", cpu="8")
        await site.bound("innocent", within=10)
        for name in forged:
            site.kube.delete_pod(name)
        await asyncio.sleep(60)
        assert not site.drained()
        assert not mass_deletion_guard_is_engaged(site)
        assert "deletionTimestamp" not in site.pod("innocent")["metadata"]


async def test_a_forged_record_of_a_live_job_of_another_pod_changes_nothing_of_it(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("victim", cpu="2")
        await site.bound("victim")
        [job] = site.jobs_of("victim")
        forged = forge(site, 1, job.job_id)
        await site.until(lambda: "BoundWithoutSlurm" in site.events(forged), "the word about it")
        site.kube.delete_pod(forged, grace_s=0)
        await asyncio.sleep(30)
        assert site.live_jobs() == [job]
        assert not site.drained()


async def test_a_copied_proof_proves_nothing_about_the_copy(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web", cpu="2")
        node = await site.bound("web")
    [job] = site.jobs_of("web")
    site.kube.add_pod("copy", cpu="2", annotations=dict(site.pod("web")["metadata"]["annotations"]), node=node)
    site.edit_pod("copy", lambda pod: pod["metadata"]["annotations"].update({POD: pod["metadata"]["uid"]}))
    async with site.running():
        await site.until(lambda: "BoundWithoutSlurm" in site.events("copy"), "the word about it")
        site.slurm.controller.end(job.job_id, "TIMEOUT")
        await site.gone("web")
        await asyncio.sleep(20)
        assert "deletionTimestamp" not in site.pod("copy")["metadata"]
        assert not site.drained()


async def test_the_record_of_an_older_job_of_the_same_pod_does_not_hide_its_present_one(site: Site) -> None:
    """The author keeps an earlier record, which was proven then, and writes it back while no extender runs."""
    async with site.dying():
        site.kube.add_pod("web", cpu="2")
        node = await site.bound("web")
    [job] = site.jobs_of("web")
    older = AllocationRecords([b"secret"], CLUSTER).written(job.job_id + 7, node, site.uid("web"), node)
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].update(older))
    async with site.running():
        await site.until(lambda: site.placeholder("web").job_id == job.job_id, "its job")
        await site.until(lambda: site.pod("web")["metadata"]["annotations"][JOB_ID] == str(job.job_id), "the word")
        assert site.live_jobs() == [job]
        assert not site.drained()
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: job.ended, "its end")


def by_another_key(site: Site) -> None:
    site.config = site.config.replace(KEYED, "key: another")


def unsigned(site: Site) -> None:
    site.config = site.config.replace(KEYED, "allocationProofs: unsigned")


@pytest.fixture
async def many() -> AsyncIterator[Site]:
    """Room for a hundred Pods."""
    async with unhurried_site(nodes=[SimNode(name, cpus=40, memory_mb=200_000) for name in NAMES]) as site:
        yield site


@pytest.mark.parametrize("lose", [by_another_key, unsigned])
async def test_a_lost_key_costs_nothing_while_jobs_live_even_with_slurm_away(
    many: Site, lose: Callable[[Site], None]
) -> None:
    site, names = many, [f"web-{number}" for number in range(100)]
    async with site.dying():
        for name in names:
            site.kube.add_pod(name, cpu="100m", annotations={MODE: "batch"})
        await site.until(lambda: all(map(site.node_of, names)), "nodes", within=600)
    jobs = {job.job_id for job in site.live_jobs()}
    before = {name: site.pod(name)["metadata"]["annotations"][PROOF] for name in names}
    site.slurm.restd.slurmctld_up = False
    lose(site)
    async with site.running(ready=False):
        await asyncio.sleep(60)
        assert not any("BoundWithoutSlurm" in site.events(name) for name in names)
        site.slurm.restd.slurmctld_up = True
        await site.until(lambda: site.extender.ready, "readiness", within=600)
        signed = AllocationRecords(site.extender.hook_keys, CLUSTER)
        await site.until(
            lambda: all(signed.read(site.pod(n)["metadata"]["annotations"], site.uid(n)).job_id for n in names),
            "new proofs",
            within=600,
        )
        assert all(site.pod(name)["metadata"]["annotations"][PROOF] != before[name] for name in names)
        assert {job.job_id for job in site.live_jobs()} == jobs
        assert all(site.placeholder(name).state == "BOUND" for name in names)
        assert not any(
            {"BoundWithoutSlurm", "StatusAnnotationsIgnored", "EvictionPaused"} & set(site.events(n)) for n in names
        )
        assert not site.drained()


async def test_with_a_lost_key_a_job_that_its_owner_renamed_is_known_by_its_mark(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web", cpu="2")
        await site.bound("web")
    [job] = site.jobs_of("web")
    job.name, job.extra = "mine", ""
    by_another_key(site)
    async with site.running():
        await site.until(lambda: site.placeholder("web").job_id == job.job_id, "its job")
        assert "BoundWithoutSlurm" not in site.events("web")


async def test_while_a_key_is_replaced_either_replica_continues_with_the_others_pods(site: Site) -> None:
    """The old leader signs with the old key, the new one knows only the new key, as at the end of a rollout."""
    async with replicas(site) as both:
        first, _ = await both.led()
        site.kube.add_pod("web", cpu="2")
        await site.bound("web")
        [job] = site.jobs_of("web")
        both.start(edit=lambda config: config.replace(KEYED, "key: another"))
        for process in list(both.processes[:-1]):
            process.kill()
        await both.led(other_than=first)
        signed = AllocationRecords([b"another"], CLUSTER)
        await site.until(
            lambda: bool(signed.read(site.pod("web")["metadata"]["annotations"], site.uid("web")).job_id), "a new proof"
        )
        assert site.live_jobs() == [job]
        assert not {"BoundWithoutSlurm", "StatusAnnotationsIgnored"} & set(site.events("web"))
        assert not site.drained()


def test_the_simulated_configuration_has_a_key_that_these_tests_replace() -> None:
    assert KEYED in CONFIG
