"""`slurm-extender uninstall` removes everything that the extender created."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from extender.cli.uninstall.options import InventoryError, LeaderActiveError, UninstallOptions
from extender.cli.uninstall.removal import remove
from extender.config.load import parse
from extender.domain.jobs.identity import encode_mark
from extender.domain.jobs.job import Mark
from extender.domain.wellknown import (
    ALLOCATED_CONDITION,
    GANG,
    GANG_SIZE,
    GATE,
    MANAGED_TAINT,
    OWN_PREFIX,
    STATUS_PREFIX,
    UNAVAILABLE_REASON,
)
from simulator.cluster import CLUSTER
from simulator.kube.dynamic_resources import devices_of
from simulator.kube.faults import KubeFault
from simulator.kube.objects import Json, a_pod
from simulator.kube.resources import RESOURCE_CLAIMS
from simulator.kube.storage import ObjectKey
from simulator.network.killable import KillableNetwork
from tests.builders.process_site import NAMES, REGISTERED, REGISTERING, Site
from tests.builders.replicas import replicas
from tests.builders.resource_claims import DEVICE_MAP, come_with_resource_claims, resources_of, with_devices

pytestmark = pytest.mark.looptime

MARKS = "nodes: {unavailableTaint: {effect: NoSchedule}, unavailableCordon: true}\n"


async def handed_back(
    site: Site, *, network: KillableNetwork | None = None, scheduler: str = "slurm", **options: bool
) -> tuple[bool, list[str]]:
    """Whether nothing is left, and what was said."""
    said: list[str] = []
    io_context = site.io_context(network or site.network)
    config = parse(site.config + f"scheduler: {{name: {scheduler}, clusterId: {CLUSTER}}}\n", "test")
    try:
        return await remove(config, io_context, UninstallOptions(**options), said.append), said
    finally:
        await io_context.close()


async def crowded(site: Site) -> None:
    """Two Pods that run, one behind its gate, one in kube-scheduler's queue; a drained and marked node."""
    site.config += MARKS
    async with site.dying():
        for name in ("run-0", "run-1"):
            site.kube.add_pod(name, cpu="8")
            await site.bound(name)
        await site.slurm_request("POST", "node/n3", {"state": ["DRAIN"], "reason": "disk"})
        await site.until(lambda: UNAVAILABLE_REASON in node(site, "n3")["metadata"].get("annotations", {}), "marks")
        site.kube.add_pod("gated", cpu="8", gates=(GATE,))
        site.kube.add_pod("queued", cpu="8")
        await site.until(lambda: len(site.live_jobs()) == 4, "four jobs")
    managed = {"key": MANAGED_TAINT, "value": "slurm", "effect": "NoSchedule"}
    site.edit_node("n1", lambda one: one["spec"].update(taints=[managed, {"key": "team", "effect": "NoSchedule"}]))


def node(site: Site, name: str) -> Json:
    found = site.kube.node(name)
    assert found is not None
    return found


def own_marks_on_nodes(site: Site) -> list[str]:
    found = []
    for name in NAMES:
        one = node(site, name)
        found += [taint["key"] for taint in one["spec"].get("taints", ()) if taint["key"].startswith(OWN_PREFIX)]
        found += [key for key in one["metadata"].get("annotations", {}) if key.startswith(STATUS_PREFIX)]
        found += ["cordon"] * bool(one["spec"].get("unschedulable"))
    return found


def gated(site: Site) -> bool:
    return bool(site.pod("gated")["spec"].get("schedulingGates"))


async def test_what_waits_is_let_go_and_what_runs_continues(site: Site) -> None:
    await crowded(site)
    assert own_marks_on_nodes(site)
    clean, said = await handed_back(site)
    assert clean, "\n".join(said)
    assert sorted(job.name.rpartition("-")[0] for job in site.live_jobs()) == ["default/run-0", "default/run-1"]
    assert not gated(site)
    assert own_marks_on_nodes(site) == []
    assert site.drained() == ["n3"]  # a person's
    assert [taint["key"] for taint in node(site, "n1")["spec"]["taints"]] == ["team"]
    assert sum(line.startswith("kept: job") for line in said) == 2


async def test_the_job_of_a_gang_stays_while_a_member_runs_and_goes_when_none_does(site: Site) -> None:
    async with site.dying():
        for name in ("ring-0", "ring-1"):
            site.kube.add_pod(name, annotations={GANG: "ring", GANG_SIZE: "2"})
        for name in ("ring-0", "ring-1"):
            await site.bound(name)
        for name in ("late-0", "late-1", "late-2"):
            site.kube.add_pod(name, annotations={GANG: "late", GANG_SIZE: "3"}, cpu="8")
        await site.until(lambda: len(site.live_jobs()) == 2, "both jobs")
    _, said = await handed_back(site)
    (kept,) = site.live_jobs()
    assert kept.name.startswith("default/gang ring")
    assert any("of a gang of which no member runs" in line for line in said)
    site.kube.delete_pod("ring-0", grace_s=1)
    await site.gone("ring-0")
    await handed_back(site)
    assert len(site.live_jobs()) == 1
    site.kube.delete_pod("ring-1", grace_s=1)
    await site.gone("ring-1")
    await handed_back(site)
    await site.until(lambda: not site.live_jobs(), "the end of its job")


async def test_a_second_run_finds_nothing_and_ends_the_jobs_of_pods_that_ended_meanwhile(site: Site) -> None:
    await crowded(site)
    await handed_back(site)
    clean, said = await handed_back(site)
    assert clean
    assert said[-1] == "0 removed, 2 kept, 0 need action"
    site.kube.delete_pod("run-0", grace_s=1)
    await site.gone("run-0")
    await handed_back(site)
    await site.until(lambda: len(site.live_jobs()) == 1, "the end of its job")


async def test_a_node_that_changes_during_a_write_is_checked_again(site: Site) -> None:
    await crowded(site)
    busy = site.kube.faults.add(KubeFault("PATCH", "/api/v1/nodes/n3$", code=422, reason="Invalid", times=2))
    clean, said = await handed_back(site)
    assert clean, "\n".join(said)
    assert own_marks_on_nodes(site) == []
    assert busy.times == 0


async def test_a_dry_run_lists_and_sends_not_one_write(site: Site) -> None:
    await crowded(site)
    site.kube.requests.clear()
    jobs = [job.job_id for job in site.live_jobs()]
    clean, said = await handed_back(site, dry_run=True)
    assert clean
    assert any(line.startswith("would cancel job") for line in said)
    assert any(line.startswith("would remove the gate of Pod default/gated") for line in said)
    assert {one.method for one in site.kube.requests} == {"GET"}
    assert [job.job_id for job in site.live_jobs()] == jobs
    assert gated(site)


async def test_gates_can_be_kept_for_the_next_installation(site: Site) -> None:
    await crowded(site)
    await handed_back(site, keep_gates=True)
    assert gated(site)


async def test_running_pods_are_evicted_before_their_jobs_are_cancelled_where_that_is_requested(site: Site) -> None:
    await crowded(site)
    clean, _ = await handed_back(site, cancel_running=True)
    assert not clean
    assert len(site.live_jobs()) == 2  # Slurm would give the nodes away under the Pods
    await site.gone("run-0")
    await site.gone("run-1")
    assert (await handed_back(site, cancel_running=True))[0]
    await site.until(lambda: not site.live_jobs(), "no job")


async def test_a_drain_under_a_pod_without_a_job_stays_unless_forced(site: Site) -> None:
    async with site.dying() as die:
        site.kube.add_pod("web", cpu="8", grace_s=3000)
        at = await site.bound("web")
        site.kubelets.stop_s = 3000.0
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await site.until(lambda: site.drained() == [at], "the drain")
        die()
    clean, said = await handed_back(site)
    assert not clean
    assert any(at in line and "default/web" in line for line in said if line.startswith("needs action: "))
    assert site.drained() == [at]
    assert (await handed_back(site, force=True))[0]
    assert site.drained() == []


async def test_nodes_that_were_registered_are_taken_out(site: Site) -> None:
    site.config += REGISTERING
    async with site.dying():
        site.kube.add_node("k9", cpu="8", memory="16Gi", labels=REGISTERED, address="10.0.0.9")
        await site.until(lambda: "k9" in site.slurm.controller.nodes, "its node")
    clean, said = await handed_back(site)
    assert clean, "\n".join(said)
    assert "k9" not in site.slurm.controller.nodes


async def test_jobs_of_pods_that_slurm_did_not_place_are_ended(site: Site) -> None:
    site.config += "foreignPods: {mode: jobs}\n"
    async with site.dying():
        site.kube.create(a_pod("other", scheduler="default-scheduler", cpu="2", memory="1Gi", node="n1"))
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
    assert (await handed_back(site))[0]
    await site.until(lambda: not site.live_jobs(), "no job")


async def test_jobs_of_others_are_left_alone(site: Site) -> None:
    await site.submit_as_another_user()
    await handed_back(site)  # takes the evidence of fences off Nodes
    clean, said = await handed_back(site)
    assert clean
    assert said == ["0 removed, 0 kept, 0 need action"]
    assert len(site.live_jobs()) == 1


async def test_reminders_of_devices_are_deleted_once_no_resource_claim_holds_these(site: Site) -> None:
    with_devices(site)
    site.config += DEVICE_MAP
    dra = resources_of(site)
    async with site.dying():
        await come_with_resource_claims(site)
        await site.bound("web")
        [resource_claim] = site.kube.storage.of(RESOURCE_CLAIMS)
        held = devices_of(resource_claim)
        dra.share_for_a_moment(held[0])
        await site.until(lambda: held[0] in dra.known, "a reminder")
        assert len(list(site.kube.storage.of(RESOURCE_CLAIMS))) == 2
    clean, said = await handed_back(site)
    assert clean, "\n".join(said)
    assert held[0] in dra.known, "a kube-scheduler would give the device to another Pod"
    assert any(line.startswith("kept: ResourceClaim default/slurm-device-reminder-") for line in said)
    key = ObjectKey(RESOURCE_CLAIMS, "default", resource_claim["metadata"]["name"])
    site.kube.change(key, lambda one: one["status"].pop("allocation"))
    clean, said = await handed_back(site)
    assert clean, "\n".join(said)
    assert [devices_of(one) for one in site.kube.storage.of(RESOURCE_CLAIMS)] == [[]]
    assert any(line.startswith("delete ResourceClaim default/slurm-device-reminder-") for line in said)


async def test_it_refuses_while_an_extender_leads(site: Site) -> None:
    async with replicas(site, 1) as led:
        with pytest.raises(LeaderActiveError, match="scale deployment"):
            await handed_back(site)
        led.processes[0].kill()
        await asyncio.sleep(1)
        assert (await handed_back(site))[0]


async def test_what_cannot_be_read_ends_nothing(site: Site) -> None:
    await crowded(site)
    site.kube.faults.add(KubeFault("GET", "/api/v1/pods", code=500, times=None))
    with pytest.raises(InventoryError):
        await handed_back(site)
    assert len(site.live_jobs()) == 4


@pytest.mark.parametrize("after", [1, 3, 5, 6])
async def test_a_run_that_broke_off_anywhere_is_gone_on_with_by_the_next(site: Site, after: int) -> None:
    await crowded(site)
    own, lines = KillableNetwork(site.network), 0
    config = parse(site.config + f"scheduler: {{clusterId: {CLUSTER}}}\n", "test")
    io_context = replace(site.io_context(own))

    def say(_line: str) -> None:
        nonlocal lines
        lines += 1
        if lines == after:
            own.die()
            task.cancel()

    task = asyncio.ensure_future(remove(config, io_context, UninstallOptions(), say))
    with suppress(asyncio.CancelledError, InventoryError):
        await task
    await io_context.close()
    clean, said = await handed_back(site)
    assert clean, "\n".join(said)
    assert len(site.live_jobs()) == 2
    assert not gated(site)
    assert own_marks_on_nodes(site) == []


async def test_the_gate_of_a_pod_that_another_extender_may_be_in_charge_of_stays(site: Site) -> None:
    site.kube.add_pod("theirs", scheduler="another-slurm", gates=(GATE,))
    site.kube.add_pod("nobodys", scheduler="default-scheduler", gates=(GATE,))
    clean, said = await handed_back(site)
    assert clean
    assert site.pod("theirs")["spec"]["schedulingGates"]
    assert not site.pod("nobodys")["spec"].get("schedulingGates")
    assert any(line.startswith("kept: the gate of Pod default/theirs") for line in said)
    await handed_back(site, force=True)
    assert not site.pod("theirs")["spec"].get("schedulingGates")


def condition_of(site: Site, name: str, kind: str) -> tuple[str, str, str]:
    conditions: list[Json] = site.pod(name)["status"].get("conditions", [])
    said = next((one for one in conditions if one["type"] == kind), {})
    return said.get("status", ""), said.get("reason", ""), said.get("message", "")


async def test_what_was_said_of_pods_that_wait_is_taken_back(site: Site) -> None:
    await crowded(site)
    async with site.dying():
        for name in ("gated", "queued"):
            await site.until(
                lambda name=name: condition_of(site, name, ALLOCATED_CONDITION)[1] == "SlurmJobQueued",  # type: ignore[misc]
                "why it waits",
            )
    clean, _ = await handed_back(site)
    assert clean
    for name in ("gated", "queued"):
        status, reason, message = condition_of(site, name, ALLOCATED_CONDITION)
        assert (status, reason) == ("False", "ExtenderUninstalled")
        assert "job" not in message
    _, said = await handed_back(site)
    assert said[-1] == "0 removed, 2 kept, 0 need action"
    assert condition_of(site, "run-0", ALLOCATED_CONDITION) == ("", "", "")


async def test_objects_that_cannot_be_read_are_said(site: Site) -> None:
    site.kube.add_pod("odd", gates=(GATE,))
    site.edit_pod("odd", lambda pod: pod["spec"].update(containers="none"))
    clean, said = await handed_back(site)
    assert not clean
    assert any(line.startswith("needs action: Pod default/odd") for line in said)


async def test_drains_stay_while_a_pod_cannot_be_read(site: Site) -> None:
    """It may be the one that the drain protects."""
    async with site.dying():
        site.kube.add_pod("web")
        node = await site.bound("web")
        site.kubelets.take_down(node)
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == [node], "the drain")
    site.edit_pod("web", lambda pod: pod["spec"].update(containers="none"))
    clean, said = await handed_back(site)
    assert not clean
    assert site.drained() == [node]
    assert f"needs action: the drain of Slurm node {node}: 1 Pods cannot be read, and may run there" in "\n".join(said)
    await handed_back(site, force=True)
    assert not site.drained()


@pytest.mark.parametrize("path", ["/pods/", "/nodes/n1", "/nodes/n3", "/status$"])
async def test_what_the_api_server_forbids_is_said_and_the_rest_is_done(site: Site, path: str) -> None:
    await crowded(site)
    site.kube.faults.add(KubeFault("PATCH", path, code=403, times=None))
    clean, said = await handed_back(site)
    assert not clean
    assert any(line.startswith("needs action: ") for line in said)
    assert len(site.live_jobs()) == 2
    site.kube.faults.clear()
    assert (await handed_back(site))[0]
    assert not gated(site)
    assert own_marks_on_nodes(site) == []


async def test_a_job_that_only_its_owner_marks_is_left_alone_and_reported(site: Site) -> None:
    job = site.slurm.controller.jobs[await site.submit_as_another_user()]
    job.extra = encode_mark(Mark(CLUSTER, "slurm", "nobody", 1))
    clean, said = await handed_back(site)
    assert not clean
    assert any(line.startswith(f"needs action: job {job.job_id} has the extender's mark") for line in said)
    assert len(site.live_jobs()) == 1


async def test_the_job_of_a_pod_that_cannot_be_read_is_kept(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web")
        await site.bound("web")
    site.edit_pod("web", lambda pod: pod["spec"].update(containers="none"))
    _, said = await handed_back(site)
    assert any(line.startswith("kept: job") and "cannot be read" in line for line in said)
    assert len(site.live_jobs()) == 1


async def test_a_pod_is_not_left_without_the_job_that_it_runs_on_and_another_of_it_is_ended(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web")
        await site.bound("web")
    [job] = site.live_jobs()
    twin = site.slurm.controller.jobs[await site.submit_as_another_user()]
    twin.name, twin.extra, twin.admin_comment = job.name, job.extra, job.admin_comment
    await handed_back(site)
    await site.until(lambda: [one.job_id for one in site.live_jobs()] == [job.job_id], "the end of the other")


async def test_a_node_that_was_registered_stays_while_a_kept_job_runs_there(site: Site) -> None:
    site.config += REGISTERING
    async with site.dying():
        site.kube.add_node("k9", cpu="8", memory="16Gi", labels=REGISTERED, address="10.0.0.9")
        await site.until(lambda: "k9" in site.slurm.controller.nodes, "its node")
        site.kube.add_pod("web", node_selector=REGISTERED)
        assert await site.bound("web") == "k9"
    clean, said = await handed_back(site)
    assert not clean
    assert any(line.startswith("needs action: Slurm node k9") for line in said)
    assert "k9" in site.slurm.controller.nodes
    assert len(site.live_jobs()) == 1


async def test_a_drain_for_a_pod_that_was_removed_without_its_kubelets_word_stays_unless_forced(site: Site) -> None:
    async with site.dying() as die:
        site.kubelets.stop_s = 3600.0
        site.kube.add_pod("web", grace_s=30)
        at = await site.bound("web")
        await site.until(lambda: site.pod("web")["status"]["phase"] == "Running", "a running Pod")
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: site.drained() == [at] and not site.live_jobs(), "the drain, and the end of its job")
        die()
    clean, said = await handed_back(site)
    assert not clean
    assert any(line.startswith(f"needs action: the drain of Slurm node {at}: Pod default/web") for line in said)
    assert site.drained() == [at]
    assert (await handed_back(site, force=True))[0]
    assert site.drained() == []


async def test_what_another_extender_holds_for_pods_is_left_alone(site: Site) -> None:
    site.config += "foreignPods: {mode: jobs}\n"
    async with site.dying():
        site.kube.create(a_pod("other", scheduler="default-scheduler", cpu="2", memory="1Gi", node="n1"))
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
    _, said = await handed_back(site, scheduler="another")
    assert said[-1] == "0 removed, 0 kept, 0 need action"
    assert len(site.live_jobs()) == 1
