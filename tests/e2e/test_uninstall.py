"""Everything is removed on the real parts, with no more rights than the extender has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from extender.domain.wellknown import CORDONED_BY, GATE, MANAGED_TAINT, OWN_PREFIX, UNAVAILABLE_REASON
from lab.site import PodRef
from tests.builders.stage import Stage

GATED = [{"name": GATE}]
MARKS = {
    "nodes": {
        "managedTaint": {"effect": "NoSchedule"},
        "unavailableTaint": {"effect": "NoSchedule"},
        "unavailableCordon": True,
    }
}
DISK = "a disk is slow"


def gates(stage: Stage, pod: PodRef) -> list[str]:
    found = stage.site.read(pod)
    assert found is not None
    return [gate["name"] for gate in found["spec"].get("schedulingGates") or ()]


@pytest.mark.every_kubernetes
@pytest.mark.modes("batch", slow=("24.11", "older"))
def test_what_waits_is_let_go_what_runs_continues_and_a_new_installation_adopts_it(stage: Stage) -> None:
    site, tiny = stage.site, stage.family.tiny
    runs = stage.pod("runs", partition=tiny, cpus=4)
    site.bound(runs)
    job = stage.job(runs)
    gated = stage.pod("gated", partition=tiny, cpus=4, schedulingGates=GATED)
    waits = stage.pod("waits", partition=tiny, cpus=4)
    for pod in (gated, waits):
        stage.job(pod)
    site.stop_extender()
    try:
        code, said = site.uninstall("--dry-run")
        assert (code, len(stage.jobs())) == (0, 3), said
        assert gates(stage, gated) == [GATE]

        code, said = site.uninstall()
        assert code == 0, said
        for pod in (gated, waits):
            stage.wait_job_ended(pod)
        assert gates(stage, gated) == []
        assert [one.job_id for one in stage.jobs(runs)] == [job.job_id]
        assert f"kept: job {job.job_id}" in said
        assert stage.drained() == []
        assert "0 removed, 1 kept, 0 need action" in site.uninstall()[1]
    finally:
        site.start_extender()
    assert stage.job(waits).state == "PENDING"
    assert stage.job(runs).job_id == job.job_id
    site.delete(runs)
    site.wait_for(lambda: site.node_of(waits) or site.node_of(gated), "one that waited has the node", timeout_s=60)


@pytest.fixture
def marked(stage: Stage) -> Iterator[Stage]:
    """One Node has all that the extender writes on Nodes: a person drains it in Slurm. A person cordons another."""
    site, (ill, cordoned) = stage.site, stage.family.nodes[:2]
    site.reconfigure(MARKS)
    try:
        site.slurm.run("scontrol", "update", f"nodename={ill}", "state=drain", f"reason={DISK}")
        site.patch_node(cordoned, {"spec": {"unschedulable": True}})
        site.wait_for(lambda: cordoned in ",".join(stage.drained()), "its cordon is told to Slurm", timeout_s=30)
        site.wait_for(
            lambda: {CORDONED_BY, UNAVAILABLE_REASON} <= own_marks_on(node(stage, ill)),
            "its drain is told",
            timeout_s=30,
        )
        yield stage
    finally:
        site.patch_node(cordoned, {"spec": {"unschedulable": False}})
        site.slurm.run("scontrol", "update", f"nodename={ill}", "state=resume")
        if not site.extender.running:
            site.start_extender()
        site.reconfigure()
        site.wait_for(
            lambda: not own_marks_on(node(stage, ill)), "no mark of the extender is on the Node", timeout_s=60
        )
        stage.finish()


def node(stage: Stage, name: str) -> dict[str, Any]:
    found: dict[str, Any] = stage.site.kube.api("GET", f"/api/v1/nodes/{name}")[1]
    return found


def own_marks_on(one: dict[str, Any]) -> set[str]:
    """The keys of our taints and annotations, and of our condition where it is True."""
    taints: set[str] = {taint["key"] for taint in one["spec"].get("taints", ()) if taint["key"].startswith(OWN_PREFIX)}
    notes: set[str] = {CORDONED_BY, UNAVAILABLE_REASON} & one["metadata"].get("annotations", {}).keys()
    told: set[str] = {each["type"] for each in one["status"]["conditions"] if each["status"] == "False"}
    return taints | notes | {name for name in told if name.startswith(OWN_PREFIX)}


@pytest.mark.slow
@pytest.mark.modes("batch", "external")
def test_taints_cordons_conditions_and_drains_of_the_extender_are_removed_and_those_of_others_stay(
    marked: Stage,
) -> None:
    stage, site = marked, marked.site
    ill, cordoned, third = stage.family.nodes[:3]
    assert MANAGED_TAINT in own_marks_on(node(stage, third))
    assert node(stage, ill)["spec"]["unschedulable"] is True
    site.stop_extender()

    code, said = site.uninstall("--dry-run")
    assert code == 0, said
    assert stage.drained()
    assert CORDONED_BY in own_marks_on(node(stage, ill))

    code, said = site.uninstall()
    assert code == 0, said
    nodes = site.kube.api("GET", "/api/v1/nodes")[1]["items"]
    assert {one["metadata"]["name"]: own_marks_on(one) for one in nodes if own_marks_on(one)} == {}
    assert not node(stage, ill)["spec"].get("unschedulable")
    assert node(stage, cordoned)["spec"]["unschedulable"] is True
    assert stage.drained() == []
    assert f"{ill}|{DISK}" in site.slurm.run("sinfo", "-h", "-R", "-o", "%N|%E").splitlines()
    assert "0 removed, 0 kept, 0 need action" in site.uninstall()[1]
