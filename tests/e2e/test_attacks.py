"""What the author of a Pod, or a kubelet, can write: nobody else waits for it, and no node is held.

Each was done by an adversary first. An innocent Pod of another namespace is placed beside each of them.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from extender import slurm as scripts
from extender.domain.jobs.identity import encode_mark
from extender.domain.jobs.job import Mark
from extender.domain.wellknown import JOB_ID, NODE, POD_SLURM_NODE, SLURM_NODE
from lab.errors import LabError
from lab.probe import answers_ok
from lab.site import PodRef, Site
from lab.topology import slurm_name
from tests.builders.bombs import BOMBS, OWN
from tests.builders.stage import DRAIN_MARK, Stage
from tests.e2e.test_plugin import Kubectl

CLOSED = "closed"
pytestmark = pytest.mark.modes("batch", slow=("24.11",))


@pytest.fixture
def innocent(stage: Stage) -> Iterator[Stage]:
    """Another namespace of the same site."""
    other = Stage(stage.site, stage.mode, stage.site.namespace(f"{stage.namespace}-innocent"))
    yield other
    other.finish()


def drained(site: Site) -> str:
    """Nodes that are drained in the extender's name, as Slurm says it: a node that is idle again may keep a reason."""
    lines = site.slurm.run("sinfo", "--noheader", "--Format=NodeList:60,StateLong:40,Reason:200").splitlines()
    return "\n".join(line for line in lines if DRAIN_MARK in line and "drain" in line[60:100].lower())


@pytest.mark.parametrize("name", BOMBS)
def test_no_annotation_keeps_another_pod_waiting(stage: Stage, innocent: Stage, name: str) -> None:
    site = stage.site
    bomb = stage.pod("bomb", annotations=BOMBS[name])
    assert site.bound(innocent.pod("web"))
    assert answers_ok(f"{site.extender.url}/livez")
    if name != "keys":  # an unknown key of our own is a fault, too, but one of thousands
        assert site.event(bomb, "InvalidSlurmSettings")
    assert stage.jobs(bomb, "all") == []


def test_pods_that_name_a_node_and_forge_a_claim_hold_no_node(stage: Stage, innocent: Stage) -> None:
    site, nodes = stage.site, stage.family.nodes[:6]
    forged: list[PodRef] = []
    for number, node in enumerate(nodes):
        said = {JOB_ID: "99999", NODE: nodes[0], POD_SLURM_NODE: node}
        forged.append(stage.pod(f"forged-{number}", annotations=said, nodeName=nodes[0]))
    for ref in forged:
        assert site.event(ref, "BoundWithoutSlurm")
    assert site.bound(innocent.pod("web"))
    site.restart_extender()
    assert site.bound(innocent.pod("again"))
    for ref in forged:
        site.kube.api("DELETE", f"/api/v1/namespaces/{ref.namespace}/pods/{ref.name}?gracePeriodSeconds=0")
    time.sleep(3)  # several looks of the extender: there is nothing to wait for
    assert not drained(site)
    assert not site.metric("mass_deletion_guard_active")


def test_a_grace_of_years_is_refused(stage: Stage) -> None:
    with pytest.raises(LabError, match="terminationGracePeriodSeconds of a Pod of this scheduler is at most 3600"):
        stage.pod("long", grace_s=99_999_999)


def test_a_forced_deletion_holds_its_node_alone_and_an_administrator_releases_it(stage: Stage, innocent: Stage) -> None:
    site, kubectl = stage.site, Kubectl(stage)
    forced = stage.pod("forced", grace_s=3000)
    node = site.bound(forced)
    site.wait_for(lambda: stage.phase(forced) == "Running", "the Pod runs")
    site.kube.api("DELETE", f"{forced.path}?gracePeriodSeconds=0")
    site.gone(forced)
    stage.wait_job_ended(forced)
    assert [line.split()[0] for line in drained(site).splitlines()] == [slurm_name(node)]
    text = site.wait_for(lambda: node_event(site, node, f"Pod {stage.namespace}/forced "), "an Event on the Node")
    assert "grace 3000 s" in text
    assert f"`kubectl slurm release {node}`" in text
    assert site.bound(innocent.pod("web")) != node
    kubectl("slurm", "release", node)
    site.wait_for(lambda: not drained(site), "the node is released long before the grace is over", timeout_s=20)


def node_event(site: Site, node: str, words: str) -> str:
    """The text of an Event `PodEndUnknown` about a Node that has these words; "" where there is none."""
    items = site.kube.api("GET", "/apis/events.k8s.io/v1/namespaces/default/events?limit=500")[1]["items"]
    about = (item for item in items if item["regarding"].get("name") == node and item["reason"] == "PodEndUnknown")
    return next((item["note"] for item in about if words in item["note"]), "")


def test_a_pod_that_requests_less_of_slurm_than_it_takes_is_refused(stage: Stage) -> None:
    site = stage.site
    small = stage.pod("small", cpus=60, memory="100Gi", annotations={OWN + "cpus-per-task": "1m"})
    assert "less than the 60 CPUs" in site.event(small, "InvalidSlurmSettings")
    assert stage.jobs(small, "all") == []


@pytest.mark.parametrize("folder", ["/root", "/etc"])
def test_the_job_of_a_pod_writes_nothing_into_the_folder_that_its_author_names(stage: Stage, folder: str) -> None:
    site = stage.site
    before = site.slurm.run("ls", "-la", "--full-time", folder)
    pod = stage.pod("web", annotations={OWN + "current-working-dir": folder})
    site.bound(pod)
    shown = site.scontrol_show_job(stage.job(pod).job_id)
    assert (shown["WorkDir"], shown["StdOut"], shown["StdErr"], shown["StdIn"]) == (folder, *["/dev/null"] * 3)
    site.delete(pod)
    stage.wait_job_ended(pod)
    assert site.slurm.run("ls", "-la", "--full-time", folder) == before


@contextmanager
def closed_partition(site: Site, node: str) -> Iterator[None]:
    """A partition for one group, in a configuration that lists nothing that Pods may name."""
    site.slurm.run("scontrol", "create", f"PartitionName={CLOSED}", f"Nodes={node}", "AllowGroups=bob")
    nothing: dict[str, list[str]] = {key: [] for key in ("partitions", "accounts", "qos", "reservations", "mcsLabels")}
    site.reconfigure({"jobs": nothing})
    try:
        yield
    finally:
        site.reconfigure()
        site.slurm.run("scontrol", "delete", f"PartitionName={CLOSED}")


def test_partitions_accounts_and_qos_of_others_are_refused_by_default(stage: Stage, innocent: Stage) -> None:
    site = stage.site
    with closed_partition(site, stage.family.nodes[0]):
        closed = stage.pod("closed", partition=CLOSED)
        assert "AllowGroups=bob" in site.event(closed, "InvalidSlurmSettings")
        high = stage.pod("high", partition=stage.family.urgent)
        assert "PriorityTier=10" in site.event(high, "InvalidSlurmSettings")
        for key in ("account", "qos", "reservation", "mcs-label"):
            named = stage.pod(key, annotations={OWN + key: "others"})
            assert "is not allowed" in site.event(named, "InvalidSlurmSettings")
        assert site.bound(innocent.pod("web", partition=stage.family.main))
        assert stage.jobs(states="all") == []


def unclear(site: Site) -> list[dict[str, Any]]:
    """What the extender said of Nodes of which it does not know the Slurm node."""
    return [line for line in site.extender_log() if line["msg"] == "node_mapping_conflict"]


def test_a_kubelet_does_not_draw_the_pods_of_another_node(stage: Stage, innocent: Stage) -> None:
    site = stage.site
    thief, victim = stage.family.nodes[:2]
    site.patch_node(thief, {"metadata": {"annotations": {SLURM_NODE: victim}}})
    try:
        site.wait_for(lambda: any(thief in line["problem"] for line in unclear(site)), "the extender has seen it")
        wanted = innocent.pod("web", annotations={OWN + "required-nodes": victim})
        time.sleep(5)  # nothing is to happen
        assert site.node_of(wanted) in {"", victim}
    finally:
        site.patch_node(thief, {"metadata": {"annotations": {SLURM_NODE: None}}})
    assert site.bound(wanted, timeout_s=60) == victim


SAYS_CANCELLED = "x JobState=CANCELLED y Restarts=7 z"
MARK = encode_mark(Mark("cluster", "slurm", "workload", 1))
NAMES_THAT_LIE: Mapping[str, str] = {
    "another state": SAYS_CANCELLED,
    "a line of its own": f"x\n   JobState=CANCELLED Restarts=7\n{{job}}    CANCELLED    7    {MARK}",
    "a field of administrators": f"x AdminComment={MARK}",
}


@pytest.fixture
def native_job(stage: Stage) -> Iterator[Callable[..., str]]:
    """Submits jobs of one CPU with a name and `extra` of their owner's choice; cancels them in the end."""
    slurm, made = stage.site.slurm, list[str]()

    def submit(name: str, extra: str) -> str:
        where = (f"--nodelist={stage.family.nodes[0]}", f"--partition={stage.family.main}", "--output=/dev/null")
        words = ("sbatch", "--parsable", f"--job-name={name}", f"--extra={extra}", "--mem=1", *where)
        made.append(slurm.run(*words, stdin="#!/bin/sh\nexec sleep 600\n").strip())
        return made[-1]

    yield submit
    slurm.run("scancel", *made)


@pytest.mark.parametrize("lie", NAMES_THAT_LIE)
def test_the_scripts_of_nodes_read_of_a_job_what_slurm_says_and_not_what_its_owner_wrote(
    stage: Stage, native_job: Callable[..., str], lie: str
) -> None:
    slurm, text = stage.site.slurm, (Path(scripts.__file__).parent / "site.sh").read_text()
    job = native_job("plain", MARK)
    slurm.run("scontrol", "update", f"JobId={job}", f"Name={NAMES_THAT_LIE[lie].replace('{job}', job)}")
    stage.site.wait_for(lambda: "RUNNING" in slurm.run("squeue", "-h", "-o", "%T", "-j", job), "the job runs")

    def read() -> list[str]:
        given = f"HOOKS= KEY_FILE=/dev/null CONF= SLURM_JOB_ID={job} MARK={shlex.quote(MARK[:20])}\n"
        said = f'{given}{text.replace(". post.sh", "")}\nprove\nread_job {job}\necho "$state|$restarts|$proven"\n'
        return slurm.run("bash", "-s", stdin=said).split("|")

    assert read() == ["RUNNING", "0", "no\n"]
    slurm.run("scontrol", "update", f"JobId={job}", f"AdminComment={MARK}")
    assert read() == ["RUNNING", "0", "yes\n"]
    slurm.run("scancel", job)
    stage.site.wait_for(lambda: read()[0] == "CANCELLED", "the scripts see that it is over")
