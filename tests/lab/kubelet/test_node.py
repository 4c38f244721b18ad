"""A real node: its kubelet can be stopped alone, the whole of it by a power cut, and nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cgroups import ROOT
from lab.clock import wait_until
from lab.kubelet_site import KubeletSite
from lab.pods import container
from lab.site import PodRef
from lab.topology import small

pytestmark = [pytest.mark.lab, pytest.mark.kubelet]

PATIENCE_S = 60

RUNNER = """
import sys, tempfile
from pathlib import Path
from lab.kubelet_site import KubeletSite
from lab.topology import small

with tempfile.TemporaryDirectory() as folder:
    topology = small("24.11")
    with KubeletSite("24.11", topology=topology, real=["node-1"], workdir=Path(folder)) as site:
        print(site.nodes["node-1"].cgroups.name, site.nodes["node-1"].sandbox.init_pid, flush=True)
        sys.stdin.read()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletSite]:
    """One real node, and two of kwok's beside it."""
    config = {"slurm": {"killWait": "10s", "defaultPartition": "batch"}}
    workdir = tmp_path_factory.mktemp("node")
    with KubeletSite("24.11", topology=small("24.11"), real=["node-1"], config=config, workdir=workdir) as found:
        yield found
    assert not trees(found.nodes["node-1"].cgroups.name), "an orderly end removes the cgroups"


def trees(name: str) -> list[Path]:
    return list(ROOT.glob(f"*/{name}"))


def boot_id(site: KubeletSite) -> str:
    node = site.kube.api("GET", "/api/v1/nodes/node-1")[1]
    return str(node["status"]["nodeInfo"]["bootID"])


def running_on(site: KubeletSite, name: str, node: str) -> PodRef:
    """A Pod that runs there without Slurm."""
    script = 'trap "exit 0" TERM; echo started; while :; do sleep 0.1; done'
    containers = [container(script, memory="64Mi")]
    pod = site.pod(name, scheduler="default-scheduler", nodeName=node, containers=containers)
    site.wait_for(lambda: (site.read(pod) or {})["status"].get("phase") == "Running", f"Pod {name} runs")
    return pod


def test_kwok_runs_the_other_nodes_and_leaves_the_real_one_alone(site: KubeletSite) -> None:
    kubelets = {
        node["metadata"]["name"]: node["status"]["nodeInfo"]["containerRuntimeVersion"].partition(":")[0]
        for node in site.kube.api("GET", "/api/v1/nodes")[1]["items"]
    }
    assert kubelets == {"node-1": "containerd", "node-2": "lab", "node-3": "lab"}
    site.delete(running_on(site, "on-kwok", "node-2"))


def test_a_container_runs_and_its_log_is_read(site: KubeletSite) -> None:
    pod = running_on(site, "logs", "node-1")
    assert site.kube.kubectl("logs", "logs") == "started\n"
    processes = site.nodes["node-1"].processes(pod.uid)
    assert set(processes) <= set(site.nodes["node-1"].sandbox.pids()) | set(processes)
    assert len(processes) >= 3, "pause, the shell and its sleep"
    site.delete(pod)
    site.gone(pod)
    assert not site.nodes["node-1"].processes(pod.uid)


def test_containers_run_on_without_their_kubelet(site: KubeletSite) -> None:
    node = site.nodes["node-1"]
    pod = running_on(site, "alone", "node-1")
    before = node.processes(pod.uid)[0]
    node.kubelet.kill()
    assert node.processes(pod.uid)[0] == before
    node.kubelet.start()
    site.delete(pod)
    site.gone(pod)


def test_a_power_cut_leaves_no_process_and_the_node_boots_as_another_boot(site: KubeletSite) -> None:
    node = site.nodes["node-1"]
    pod = running_on(site, "cut", "node-1")
    first, processes = boot_id(site), node.processes(pod.uid)
    node.power_cut()
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)
    assert not trees(node.cgroups.name)
    assert not site.slurm.daemon("node-1").running
    site.boot("node-1")
    site.wait_for(lambda: boot_id(site) != first, "the kubelet reports the reboot")
    site.wait_for(lambda: (site.read(pod) or {})["status"].get("phase") == "Failed", "its Pod has failed")
    site.delete(pod)
    site.gone(pod)


def test_a_lab_that_is_killed_leaves_no_process_and_no_cgroup() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as runner:
        try:
            assert runner.stdout is not None
            cgroup, init = runner.stdout.readline().split()
            assert trees(cgroup)
            os.kill(runner.pid, signal.SIGKILL)
            wait_until(lambda: not trees(cgroup), "the cgroups are gone", timeout_s=PATIENCE_S)
            wait_until(lambda: not Path(f"/proc/{init}").exists(), "process 1 is gone", timeout_s=PATIENCE_S)
        finally:
            runner.kill()
