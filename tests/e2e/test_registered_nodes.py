"""Nodes of Kubernetes alone are registered in a real Slurm as external nodes, and follow their Nodes.

The site is of its own: one node with slurmd, which Kubernetes does not know, and one that somebody else made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from lab.build_slurm import RELEASES
from lab.clock import elapsed
from lab.errors import LabError
from lab.probe import decoded, request
from lab.site import PodRef, Site
from lab.slurm_conf import Partition, SlurmNode
from lab.topology import Topology
from tests.e2e.conftest import CONFIG, EXTERNAL_FROM

LABEL = {"example.com/slurm": "yes"}
THEIRS = "theirs-1"
SITE_CONFIG = CONFIG | {
    "nodes": {
        "external": {
            "selector": {"matchLabels": LABEL},
            "nodeSets": ["k8s"],
            "features": [{"label": "zone", "feature": "zone-{value}"}],
            "topology": [{"topology": "tree", "under": "root", "labels": ["zone", "rack"]}],
            "settle": "2s",
        }
    },
    "jobs": CONFIG["jobs"] | {"gpuTypeLabels": ["model"], "gpuTypes": {"H100": "h100"}},
}
TOPOLOGY_YAML = """\
- topology: tree
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: sw-node-1
      - switch: sw-node-1
        nodes: node-1
"""
TOPOLOGY = Topology(
    nodes=(SlurmNode("node-1", cpus=4, memory_mb=4000),),
    external_nodes=(),
    partitions=(Partition("batch", default=True, nodes="node-1"), Partition("k8s", nodes="k8s")),
    kube_nodes=(),
    slurm_config={
        "KillWait": "10",
        "MinJobAge": "7200",
        "NodeSet": "k8s Feature=k8s",
        "PreemptParameters": "send_user_signal",
    },
    slurm_files={"topology.yaml": TOPOLOGY_YAML},
)
ABLE = [one for one in RELEASES if tuple(int(part) for part in one.split(".")) > EXTERNAL_FROM]
_numbers = count(1)


@pytest.fixture(scope="module", params=[pytest.param(release, id=release, marks=pytest.mark.lab) for release in ABLE])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site where Nodes are registered."""
    workdir = tmp_path_factory.mktemp("fleet")
    with Site(request.param, topology=TOPOLOGY, config=SITE_CONFIG, workdir=workdir) as site:
        site.slurm.run("scontrol", "create", f"nodename={THEIRS}", "cpus=2", "realmemory=1000", "state=external")
        yield site


@pytest.fixture
def name(fleet: Site) -> Iterator[str]:
    """A Node for one test, gone afterwards on both sides."""
    found = f"ip-10-0-0-{next(_numbers)}.example.internal"
    yield found
    fleet.kube.api("DELETE", f"/api/v1/nodes/{found}")
    fleet.wait_for(lambda: slurm_node(fleet, found) is None, f"{found} is gone from Slurm", timeout_s=60)


def slurm_node(site: Site, name: str) -> dict[str, Any] | None:
    """What Slurm has under this name."""
    _, answer = site.slurm.rest("GET", f"node/{name}")
    nodes: list[dict[str, Any]] = answer.get("nodes") or []
    return nodes[0] if nodes else None


def features(node: dict[str, Any]) -> set[str]:
    """Its features but for our mark."""
    return {one for one in node["features"] if not one.startswith("slurm-extender:")}


def add(site: Site, name: str, *, cpus: int = 16, gpus: int = 0, **labels: str) -> None:
    site.kube.add_node(name, cpus=cpus, memory="64000Mi", gpus=gpus, labels={**LABEL, **labels})


def resize(site: Site, name: str, **sizes: str) -> None:
    """As a kubelet that says another size."""
    site.merge(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": sizes, "capacity": sizes}})


def registered(site: Site, name: str, *, cpus: int = 16, timeout_s: float = 30) -> dict[str, Any]:
    def check() -> dict[str, Any] | None:
        node = slurm_node(site, name)
        return node if node is not None and node["cpus"] == cpus and "DRAIN" not in node["state"] else None

    return site.wait_for(check, f"Slurm has {name} with {cpus} CPUs", timeout_s=timeout_s)


def placed(site: Site, namespace: str, node: str, pod: str = "web", *, gpus: int = 0) -> PodRef:
    """A Pod on that Node."""
    annotations = {"slurm-extender.io/mode": "external", "slurm-extender.io/partition": "k8s"}
    selector = {"kubernetes.io/hostname": node}
    ref = site.pod(pod, namespace, annotations=annotations, nodeSelector=selector, gpus=gpus)
    assert site.bound(ref) == node
    return ref


def waits(site: Site, name: str) -> str:
    """What the extender says that the node waits for."""
    _, answer = request("GET", f"http://127.0.0.1:{site.addresses.debug}/debug/nodes")
    return next((str(one.get("waits")) for one in decoded(answer)["external"] if one.get("slurm") == name), "")


def test_a_labelled_node_is_a_node_of_slurm_and_takes_a_pod(fleet: Site, name: str) -> None:
    namespace = fleet.namespace("registered")
    add(fleet, name, gpus=4, model="H100", zone="z1", rack="r1")
    node = registered(fleet, name)
    assert "EXTERNAL" in node["state"]
    assert (node["real_memory"], node["gres"], node["partitions"]) == (64000, "gpu:h100:4", ["k8s"])
    assert features(node) == {"k8s", "zone-z1"}
    assert node["topology"] == "tree:root:z1:r1"
    ref = placed(fleet, namespace, name, gpus=2)
    job = next(job for job in fleet.squeue() if job.node == name)
    assert job.partition == "k8s"
    fleet.delete(ref)
    fleet.gone(ref)


@pytest.mark.slow
def test_another_size_waits_for_the_pod_and_then_the_node_is_recreated(fleet: Site, name: str) -> None:
    namespace = fleet.namespace("resized")
    add(fleet, name, gpus=4, model="H100")
    registered(fleet, name)
    ref = placed(fleet, namespace, name)
    resize(fleet, name, cpu="32", **{"nvidia.com/gpu": "3"})
    fleet.wait_for(lambda: "of this scheduler are there" in waits(fleet, name), "it waits for the Pod", timeout_s=60)
    assert "DRAIN" in (slurm_node(fleet, name) or {})["state"]
    fleet.elapse(5)
    assert (slurm_node(fleet, name) or {})["cpus"] == 16
    assert fleet.node_of(ref) == name
    fleet.delete(ref)
    fleet.gone(ref)
    node = registered(fleet, name, cpus=32, timeout_s=60)
    assert node["gres"] == "gpu:h100:3"
    again = placed(fleet, namespace, name, "again", gpus=3)
    fleet.delete(again)
    fleet.gone(again)


def test_labels_are_followed_while_a_pod_runs(fleet: Site, name: str) -> None:
    namespace = fleet.namespace("relabelled")
    add(fleet, name, zone="z1", rack="r1")
    registered(fleet, name)
    ref = placed(fleet, namespace, name)
    fleet.patch_node(name, {"metadata": {"labels": {"zone": "z2", "rack": "r2"}}})

    def check() -> bool:
        node = slurm_node(fleet, name) or {}
        return features(node) == {"k8s", "zone-z2"} and node["topology"] == "tree:root:z2:r2"

    fleet.wait_for(check, "Slurm has the new labels")
    node = slurm_node(fleet, name) or {}
    assert ("DRAIN" in node["state"], node["partitions"]) == (False, ["k8s"])
    assert [job.state for job in fleet.squeue() if job.node == name] == ["RUNNING"]
    fleet.delete(ref)
    fleet.gone(ref)


def test_without_its_label_a_node_leaves_slurm_when_its_pod_has_left(fleet: Site, name: str) -> None:
    namespace = fleet.namespace("deregistered")
    add(fleet, name)
    registered(fleet, name)
    ref = placed(fleet, namespace, name)
    fleet.patch_node(name, {"metadata": {"labels": dict.fromkeys(LABEL)}})
    fleet.wait_for(lambda: "of this scheduler are there" in waits(fleet, name), "it waits for the Pod", timeout_s=60)
    assert slurm_node(fleet, name) is not None
    fleet.delete(ref)
    fleet.gone(ref)
    fleet.wait_for(lambda: slurm_node(fleet, name) is None, f"{name} is gone from Slurm", timeout_s=60)
    fleet.patch_node(name, {"metadata": {"labels": LABEL}})
    registered(fleet, name)


@pytest.mark.slow
def test_what_is_registered_outlives_slurmctld_and_the_extender_and_is_not_made_twice(fleet: Site, name: str) -> None:
    add(fleet, name, zone="z1")
    registered(fleet, name)
    fleet.slurm.restart_slurmctld()
    fleet.slurm.run("scontrol", "reconfigure")
    fleet.kill_extender()
    fleet.start_extender()
    fleet.elapse(10)
    node = registered(fleet, name)
    assert features(node) == {"k8s", "zone-z1"}
    assert not [entry for entry in fleet.extender_log() if entry.get("event") == "external_node_mismatch"]


def test_a_node_that_another_client_made_is_left_alone(fleet: Site) -> None:
    before = slurm_node(fleet, THEIRS)
    assert before is not None
    add(fleet, THEIRS)
    fleet.wait_for(lambda: "did not register it" in waits(fleet, THEIRS), "the reason")
    keys = ("cpus", "state", "features", "address")
    after = slurm_node(fleet, THEIRS)
    assert after is not None
    assert [after[key] for key in keys] == [before[key] for key in keys]
    fleet.kube.api("DELETE", f"/api/v1/nodes/{THEIRS}")
    fleet.elapse(10)
    assert slurm_node(fleet, THEIRS) is not None


def test_a_waiting_job_outlives_the_end_of_a_node_that_it_excludes(fleet: Site, name: str) -> None:
    """Every Pod's job excludes nodes; slurmctld reads the names again at its start (`job_mgr.c`)."""
    add(fleet, name)
    registered(fleet, name)
    job = {
        "name": "waits",
        "partition": "k8s",
        "tasks": 1,
        "memory_per_node": {"set": True, "number": 10},
        "current_working_directory": "/",
        "environment": ["PATH=/bin"],
        "flags": ["EXTERNAL_JOB"],
        "hold": True,
        "excluded_nodes": [name],
    }
    status, answer = fleet.slurm.rest("POST", "job/submit", {"job": job})
    assert status == 200, answer
    fleet.kube.api("DELETE", f"/api/v1/nodes/{name}")
    fleet.wait_for(lambda: slurm_node(fleet, name) is None, f"{name} is gone from Slurm", timeout_s=60)
    fleet.slurm.restart_slurmctld()
    assert [one.state for one in fleet.squeue() if one.job_id == answer["job_id"]] == ["PENDING"]
    fleet.slurm.run("scancel", str(answer["job_id"]))


MANY = 500


@pytest.mark.slow
@pytest.mark.lab
def test_five_hundred_nodes_of_a_real_api_server_are_in_slurm_soon(
    tmp_path_factory: pytest.TempPathFactory, measured: Callable[[str], None]
) -> None:
    """Nobody plays their kubelets, which would cost more than all the rest: nothing but our own work is measured."""
    workdir = tmp_path_factory.mktemp("many")
    with Site("26.05", topology=TOPOLOGY, config=SITE_CONFIG, workdir=workdir) as site:
        site.stop_extender()
        site.kube.kwok.stop()
        assert site.kube.controller_manager is not None
        site.kube.controller_manager.stop()
        for number in range(MANY):
            add_ready(site, f"many-{number}", f"10.1.{number // 250}.{number % 250 + 1}")

        def there() -> bool:
            return sum(map(int, site.slurm.run("sinfo", "-h", "-p", "k8s", "-o", "%D").split())) == MANY

        began = elapsed()
        site.start_extender()
        site.wait_for(there, f"Slurm has {MANY} Nodes", timeout_s=300, every_s=0.5)
        took = elapsed() - began
        assert not site.slurm.run("sinfo", "-h", "-R", "-o", "%N %E").strip()
        measured(f"{site.release}: {MANY} Nodes registered {took:.1f} s after the start of the extender")


def add_ready(site: Site, name: str, address: str) -> None:
    """A Node that stays as it is."""
    size = {"cpu": "64", "memory": "500Gi", "pods": "110", "nvidia.com/gpu": "8"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**LABEL, "zone": "z1", "rack": "r1", "model": "H100"}},
        "status": {
            "capacity": size,
            "allocatable": size,
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
    status, answer = site.kube.api("POST", "/api/v1/nodes", node)
    if status != 201:
        raise LabError(f"Node {name} was refused ({status}): {answer.get('message')}")
