"""One picture of a machine: what either side says of it, the other shows, and each takes away its own alone."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from extender.domain.wellknown import (
    CORDONED_BY,
    MANAGED_TAINT,
    NATIVE_JOB_TAINT,
    SLURM_AVAILABLE_CONDITION,
    UNAVAILABLE_REASON,
    UNAVAILABLE_TAINT,
)
from lab.extender import PROGRAM
from lab.probe import request
from lab.site import Site
from lab.slurm_conf import HOME
from tests.builders.stage import DRAIN_MARK, Stage

LOCK, KEY = "etc/lock.sh", "etc/lock.key"
WISHES = {
    "unavailableTaint": {"effect": "NoSchedule"},
    "unavailableCordon": True,
    "managedTaint": {"effect": "NoSchedule"},
    "nativeJobTaint": {"effect": "NoSchedule"},
}


def slurm_node(stage: Stage, node: str) -> str:
    return stage.site.slurm.run("scontrol", "--oneliner", "show", "node", node)


def drained(stage: Stage, node: str) -> bool:
    return "DRAIN" in slurm_node(stage, node).partition(" State=")[2].split()[0]


def kube_node(stage: Stage, node: str) -> Any:
    return stage.site.kube.api("GET", f"/api/v1/nodes/{node}")[1]


def taints(stage: Stage, node: str) -> set[str]:
    return {taint["key"] for taint in kube_node(stage, node)["spec"].get("taints", ())}


def condition(stage: Stage, node: str) -> tuple[str, str]:
    """Status and message; "" where there is none."""
    for one in kube_node(stage, node)["status"]["conditions"]:
        if one["type"] == SLURM_AVAILABLE_CONDITION:
            return one["status"], one["message"]
    return "", ""


def noted(stage: Stage, node: str) -> bool:
    return UNAVAILABLE_REASON in kube_node(stage, node)["metadata"].get("annotations", {})


@contextmanager
def cordoned(stage: Stage, node: str) -> Iterator[None]:
    stage.site.patch_node(node, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        stage.site.patch_node(node, {"spec": {"unschedulable": None}})


@pytest.mark.every_kubernetes
@pytest.mark.modes("batch", slow=("24.11", "older"))
def test_a_cordon_drains_slurm_s_node_for_as_long_as_it_lasts_and_comes_to_no_condition(stage: Stage) -> None:
    site, node = stage.site, stage.family.nodes[-1]
    with cordoned(stage, node):
        site.wait_for(lambda: drained(stage, node), "the cordon arrives in Slurm", timeout_s=10)
        assert f"Reason={DRAIN_MARK}" in slurm_node(stage, node)
        assert f"Node {node} is cordoned" in slurm_node(stage, node)
        site.slurm.run("scontrol", "update", f"nodename={node}", "state=undrain")
        site.wait_for(lambda: drained(stage, node), "the drain is put back", timeout_s=10)
        assert condition(stage, node)[0] != "False"
    site.wait_for(lambda: not drained(stage, node), "the drain is lifted", timeout_s=20)


@pytest.mark.every_kubernetes
@pytest.mark.modes("batch", slow=("24.11",))
def test_the_drain_of_an_administrator_stands_on_the_node_until_it_is_resumed_and_is_not_lifted(stage: Stage) -> None:
    site, node = stage.site, stage.family.nodes[-1]
    site.slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=bad disk")
    try:
        site.wait_for(lambda: condition(stage, node)[0] == "False", "the condition", timeout_s=20)
        assert f"Slurm node {node} is DRAIN: bad disk" in condition(stage, node)[1]
        assert "(set by root)" in condition(stage, node)[1]
        assert noted(stage, node)
        with cordoned(stage, node):
            site.elapse(2)
        site.elapse(2)
        assert "Reason=bad disk" in slurm_node(stage, node)
    finally:
        site.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    site.wait_for(lambda: condition(stage, node)[0] == "True", "the end of the condition", timeout_s=20)
    assert not noted(stage, node)
    assert not drained(stage, node)


@pytest.mark.modes("batch", slow=("24.11",))
def test_a_maintenance_reservation_stands_on_the_node_for_as_long_as_it_lasts(stage: Stage) -> None:
    site, node = stage.site, stage.family.nodes[-1]
    when = ["starttime=now", "duration=60", "flags=maint,ignore_jobs"]
    site.slurm.run("scontrol", "create", "reservation", "reservationname=upkeep", "users=root", f"nodes={node}", *when)
    try:
        site.wait_for(lambda: condition(stage, node)[0] == "False", "the condition", timeout_s=30)
        assert condition(stage, node)[1] == f"Slurm node {node} is MAINTENANCE"
        assert noted(stage, node)
        assert unavailable(site) == {"SlurmMaintenance": 1}
        with cordoned(stage, node):
            site.wait_for(lambda: drained(stage, node), "the cordon arrives in Slurm", timeout_s=10)
        site.wait_for(lambda: not drained(stage, node), "the drain is lifted", timeout_s=20)
        assert condition(stage, node)[0] == "False"
    finally:
        site.slurm.run("scontrol", "delete", "reservationname=upkeep")
    site.wait_for(lambda: condition(stage, node)[0] == "True", "the end of the condition", timeout_s=30)
    assert not noted(stage, node)
    assert unavailable(site) == {}


@pytest.mark.modes("batch", slow=("24.11",))
def test_a_fail_stands_on_the_node_and_a_cordon_does_not_overwrite_it(stage: Stage) -> None:
    site, node = stage.site, stage.family.nodes[-1]
    site.slurm.run("scontrol", "update", f"nodename={node}", "state=fail", "reason=bad fan")
    try:
        site.wait_for(lambda: condition(stage, node)[0] == "False", "the condition", timeout_s=20)
        assert condition(stage, node)[1] == f"Slurm node {node} is FAIL: bad fan (set by root)"
        assert unavailable(site) == {"SlurmFail": 1}
        waits = stage.submit(stage.family.main, cpus=1, nodes=[node])
        with cordoned(stage, node):
            site.elapse(8)
            assert "Reason=bad fan" in slurm_node(stage, node)
            assert [job.state for job in site.squeue() if job.job_id == waits] == ["PENDING"]
            site.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
            site.wait_for(lambda: f"Reason={DRAIN_MARK}" in slurm_node(stage, node), "the cordon arrives", timeout_s=20)
    finally:
        if "FAIL" in slurm_node(stage, node):
            site.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    site.wait_for(lambda: condition(stage, node)[0] == "True", "the end of the condition", timeout_s=20)
    site.wait_for(lambda: not drained(stage, node), "the drain is lifted", timeout_s=20)
    assert stage.running(waits) == node


@contextmanager
def slurm_conf(site: Site, **keys: str) -> Iterator[None]:
    """These keys are so for a while, then as they were in every lab."""
    before = {"SlurmdTimeout": "", "ReturnToService": "2"}
    site.slurm.reconfigure(keys)
    try:
        yield
    finally:
        site.slurm.reconfigure({key: before[key] for key in keys})


@contextmanager
def away(site: Site, node: str) -> Iterator[None]:
    """The slurmd of a node is killed, and started again."""
    site.slurm.kill_slurmd(node)
    try:
        yield
    finally:
        site.slurm.start_slurmd(node)


@pytest.mark.slow
@pytest.mark.modes("batch")
def test_a_slurmd_that_is_away_stands_on_the_node_first_as_silent_and_then_as_down(stage: Stage) -> None:
    site, node = stage.site, stage.family.nodes[-1]
    with slurm_conf(site, SlurmdTimeout="20"):
        with away(site, node):
            silent = f"Slurm node {node} is NOT_RESPONDING"
            site.wait_for(lambda: condition(stage, node) == ("False", silent), "silent", timeout_s=60)
            assert unavailable(site) == {"SlurmNotResponding": 1}
            down = f"Slurm node {node} is DOWN: "  # Slurm 24.11 puts the reason of an earlier state before its own
            said = re.compile(rf"{down}(.* : )?Not responding")
            site.wait_for(lambda: said.match(condition(stage, node)[1]) is not None, "down", timeout_s=60)
            assert noted(stage, node)
            assert unavailable(site) == {"SlurmDown": 1}
            assert not drained(stage, node)
        site.wait_for(lambda: condition(stage, node)[0] == "True", "the end of the condition", timeout_s=60)
    assert not noted(stage, node)
    assert unavailable(site) == {}


@pytest.mark.slow
@pytest.mark.modes("batch")
def test_a_node_that_is_down_keeps_its_words_behind_the_extenders_drain_and_comes_back_where_slurm_would_bring_it(
    stage: Stage,
) -> None:
    site, node = stage.site, stage.family.nodes[-1]
    with slurm_conf(site, ReturnToService="1", SlurmdTimeout="20"):
        site.slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=bad fan, ticket 4711")
        with cordoned(stage, node):
            site.wait_for(lambda: drained(stage, node), "the cordon arrives in Slurm", timeout_s=20)
            assert f"Reason={DRAIN_MARK}" in slurm_node(stage, node)
            down = f"Slurm node {node} is DOWN: bad fan, ticket 4711"
            site.wait_for(lambda: condition(stage, node) == ("False", down), "the condition behind it", timeout_s=30)
        site.wait_for(lambda: "Reason=bad fan, ticket 4711 [" in slurm_node(stage, node), "the words", timeout_s=30)
        assert " State=DOWN" in slurm_node(stage, node)
        assert not drained(stage, node)
        site.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
        site.wait_for(lambda: condition(stage, node)[0] == "True", "it is well", timeout_s=60)
        with cordoned(stage, node):
            site.wait_for(lambda: drained(stage, node), "the cordon arrives in Slurm", timeout_s=20)
            site.slurm.kill_slurmd(node)
            site.wait_for(lambda: " State=DOWN" in slurm_node(stage, node), "it is down", timeout_s=90)
            assert f"Reason={DRAIN_MARK}" in slurm_node(stage, node)  # slurmctld writes over no reason
        site.wait_for(lambda: "Reason=Not responding" in slurm_node(stage, node), "Slurm's words", timeout_s=30)
        site.slurm.start_slurmd(node)
        site.wait_for(lambda: condition(stage, node)[0] == "True", "it is back", timeout_s=60)
        assert " State=IDLE" in slurm_node(stage, node)


def unavailable(site: Site) -> dict[str, float]:
    """Nodes by the reason of their condition, as the metric has them."""
    _, answer = request("GET", f"http://127.0.0.1:{site.addresses.metrics}/metrics")
    said = re.findall(r'^slurm_extender_unavailable_nodes\{reason="(\w+)"\} ([0-9.]+)$', answer.decode(), re.MULTILINE)
    return {kind: float(count) for kind, count in said if float(count)}


BY_SLURMCTLD = ("PrologSlurmctld", "EpilogSlurmctld")
BY_SLURMD = ("Prolog", "Epilog")


@contextmanager
def wishing(site: Site, places: tuple[str, str] = BY_SLURMCTLD) -> Iterator[None]:
    """Marks, taints and locks, with the lock script in these places."""
    home = site.slurm.home
    key = home / KEY
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32), encoding="ascii")
    command = [str(PROGRAM), "generate", "lock-script", "--hooks", f"http://127.0.0.1:{site.addresses.hooks}"]
    command += ["--key-file", f"{HOME}/{KEY}", "--slurm-conf", f"{HOME}/etc/slurm.conf", "--hold", "20"]
    (home / LOCK).write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    (home / LOCK).chmod(0o755)
    site.reconfigure({"nodes": WISHES, "hooks": {"siteKeyFile": str(key)}})
    site.slurm.reconfigure({**dict.fromkeys(places, f"{HOME}/{LOCK}"), "PrologFlags": "Alloc"})
    try:
        yield
    finally:
        site.slurm.reconfigure(dict.fromkeys((*places, "PrologFlags"), ""))
        site.reconfigure()


@pytest.mark.parametrize(
    "places", [pytest.param(BY_SLURMD, marks=pytest.mark.slow), BY_SLURMCTLD], ids=["slurmd", "slurmctld"]
)
@pytest.mark.modes("batch", slow=("24.11",))
def test_the_lock_is_there_before_the_first_line_of_a_job_and_for_no_placeholder(
    stage: Stage, places: tuple[str, str]
) -> None:
    site, node = stage.site, stage.family.nodes[-1]
    told = site.slurm.home / "run" / "first-line.json"
    curl = f"curl -sk -H 'Authorization: Bearer {site.kube.token()}' {site.kube.url}/api/v1/nodes/{node}"
    into = f"{HOME}/run/{told.name}"
    first = f"{curl} > {into}.new; mv {into}.new {into}"
    with wishing(site, places):
        site.wait_for(lambda: MANAGED_TAINT in taints(stage, node), "the Nodes of Slurm are tainted")
        selector, tolerations = {"kubernetes.io/hostname": node}, [{"operator": "Exists"}]
        ours = stage.pod("ours", nodeSelector=selector, tolerations=tolerations)
        assert site.bound(ours) == node
        site.elapse(3)
        assert NATIVE_JOB_TAINT not in taints(stage, node)
        for _ in range(3):
            told.unlink(missing_ok=True)
            job = stage.submit(stage.family.main, cpus=2, nodes=[node], first=first)
            site.wait_for(told.exists, "its first line has run", timeout_s=60)
            seen = json.loads(told.read_text())
            assert NATIVE_JOB_TAINT in {taint["key"] for taint in seen["spec"]["taints"]}
            stage.cancel(job)
            site.wait_for(lambda: NATIVE_JOB_TAINT not in taints(stage, node), "the Node is unlocked", timeout_s=60)
        assert stage.job(ours).state == "RUNNING"
        site.delete(ours)
        site.gone(ours)


@pytest.mark.modes("batch", slow=("24.11",))
def test_no_execute_ends_the_pods_that_do_not_tolerate_it_and_no_other(stage: Stage) -> None:
    """kube-controller-manager's taint-eviction controller is what ends them."""
    site, node = stage.site, stage.family.nodes[-1]
    tolerations = [{"key": MANAGED_TAINT, "operator": "Exists"}]
    ours = stage.pod("ours", nodeSelector={"kubernetes.io/hostname": node}, tolerations=tolerations)
    assert site.bound(ours) == node
    others = {"scheduler": "another", "nodeName": node}
    other = site.pod("other", stage.namespace, **others)
    daemon = site.pod("daemon", stage.namespace, tolerations=tolerations, **others)
    site.reconfigure({"nodes": {"managedTaint": {"effect": "NoExecute"}}})
    try:
        site.gone(other, timeout_s=60)
        told = site.kube.api("GET", f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events")[1]["items"]
        ended = {one["regarding"]["name"] for one in told if one["reason"] == "TaintManagerEviction"}
        assert ended == {other.name}
        site.elapse(5)
        for stays in (ours, daemon):
            found = site.read(stays)
            assert found is not None
            assert "deletionTimestamp" not in found["metadata"]
        assert stage.job(ours).state == "RUNNING"
    finally:
        site.reconfigure()
    site.wait_for(lambda: MANAGED_TAINT not in taints(stage, node), "the taint goes with the setting")


@pytest.mark.modes("batch", slow=("24.11",))
def test_taints_cordon_and_lock_come_and_go_where_the_site_wants_them(stage: Stage) -> None:
    site, node = stage.site, stage.family.nodes[-1]
    with wishing(site):
        site.wait_for(lambda: MANAGED_TAINT in taints(stage, node), "the Nodes of Slurm are tainted")
        job = stage.submit(stage.family.main, cpus=2, nodes=[node])
        stage.running(job)
        site.wait_for(lambda: NATIVE_JOB_TAINT in taints(stage, node), "the Node is locked")
        assert site.metric("hook_requests_total") >= 1
        stage.cancel(job)
        site.wait_for(lambda: NATIVE_JOB_TAINT not in taints(stage, node), "the Node is unlocked", timeout_s=60)
        site.slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=bad disk")
        try:
            site.wait_for(lambda: UNAVAILABLE_TAINT in taints(stage, node), "the taint", timeout_s=20)
            marked = kube_node(stage, node)
            assert marked["spec"]["unschedulable"]
            assert marked["metadata"]["annotations"][CORDONED_BY] == "slurm"
            assert "Reason=bad disk" in slurm_node(stage, node)
        finally:
            site.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
        site.wait_for(lambda: UNAVAILABLE_TAINT not in taints(stage, node), "no taint", timeout_s=20)
        assert not kube_node(stage, node)["spec"].get("unschedulable")
        assert not drained(stage, node)
    site.wait_for(lambda: not taints(stage, node), "nothing is left of what the site does not want any more")
