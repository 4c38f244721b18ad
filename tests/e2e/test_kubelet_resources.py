"""Real kubelets that hand out exclusive CPUs and devices, and that evict: their word and Slurm's go together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from lab.build_slurm import RELEASES
from lab.kubelet_site import KubeletSite
from lab.node import KubeletOptions
from lab.pods import container
from lab.site import PodRef
from lab.slurm_conf import SlurmNode
from lab.topology import one_node

pytestmark = [pytest.mark.lab, pytest.mark.kubelet, pytest.mark.slow]

NODE = "node-1"
GPUS = 4
SHOW = "echo $LAB_DEVICES; grep Cpus_allowed_list /proc/self/status; "
RUNS = 'trap "exit 0" TERM; while :; do sleep 0.1; done'
STATIC = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}

_numbers = count(1)


@pytest.fixture(scope="module", params=RELEASES)
def single(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletSite]:
    """One node of one exclusive CPU, the machine's second one, and four GPUs of a device plugin."""
    node = SlurmNode(NODE, cpus=1, memory_mb=4000, gpus=GPUS, gpu_type="h100")
    config: dict[str, dict[str, Any]] = {"slurm": {"killWait": "10s", "defaultPartition": "batch"}}
    kubelets = KubeletOptions(config=STATIC, devices=GPUS, real_size=True)
    workdir = tmp_path_factory.mktemp("resources")
    with KubeletSite(
        request.param, topology=one_node(node), real=[NODE], kubelets=kubelets, config=config, workdir=workdir
    ) as found:
        found.wait_for(lambda: allocatable(found) == str(GPUS), "the device plugin has registered")
        yield found


def allocatable(single: KubeletSite, resource: str = "nvidia.com/gpu") -> str:
    return str(single.kube.api("GET", f"/api/v1/nodes/{NODE}")[1]["status"]["allocatable"].get(resource, ""))


def one_cpu(single: KubeletSite, name: str, *, gpus: int = 0, grace_s: int = 2, **spec: Any) -> PodRef:
    """A Guaranteed Pod of one CPU that shows what it got."""
    made = container(SHOW + RUNS, memory="64Mi")
    for kind in made["resources"].values() if gpus else ():
        kind["nvidia.com/gpu"] = str(gpus)
    return single.pod(name, single.namespace(f"resources-{next(_numbers)}"), containers=[made], grace_s=grace_s, **spec)


def phase(single: KubeletSite, pod: PodRef) -> str:
    found = single.read(pod)
    return str(found["status"].get("phase", "")) if found else "gone"


def runs(single: KubeletSite, pod: PodRef, *, timeout_s: float = 60) -> list[str]:
    """Wait until a Pod runs; return the lines of its log."""
    single.wait_for(lambda: phase(single, pod) in {"Running", "Failed"}, f"Pod {pod.name} runs", timeout_s=timeout_s)
    assert phase(single, pod) == "Running", (single.read(pod) or {})["status"]

    def lines() -> list[str]:
        found = single.kube.kubectl("logs", "-n", pod.namespace, pod.name).splitlines()
        return found if len(found) >= 2 else []

    return single.wait_for(lines, f"Pod {pod.name} has written what it got")


def ended(single: KubeletSite, pod: PodRef) -> None:
    single.delete(pod)
    single.gone(pod, timeout_s=60)
    prefix = f"{pod.namespace}/{pod.name}-"
    single.wait_for(lambda: not any(job.name.startswith(prefix) for job in single.squeue()), "its job is over")


def test_pods_with_an_exclusive_cpu_follow_each_other_and_none_is_rejected(single: KubeletSite) -> None:
    assert allocatable(single, "cpu") == "1"
    first = one_cpu(single, "first")
    assert runs(single, first)[1].split()[1] == "1"
    second = one_cpu(single, "second")
    single.elapse(3)
    assert phase(single, second) == "Pending"
    single.delete(first)
    assert runs(single, second)[1].split()[1] == "1"
    ended(single, second)


def test_an_exclusive_cpu_that_a_forced_deletion_leaves_busy_is_not_given_again(single: KubeletSite) -> None:
    """A kubelet forgets the CPUs of a Pod at once, while its processes run for the rest of their grace."""
    stubborn = container('trap "" TERM; ' + SHOW + "while :; do sleep 0.1; done", memory="64Mi")
    where = single.namespace(f"resources-{next(_numbers)}")
    first = single.pod("first", where, containers=[stubborn], grace_s=20)
    runs(single, first)
    second = one_cpu(single, "second")
    single.delete(first)
    single.elapse(2)
    single.kube.api("DELETE", f"{first.path}?gracePeriodSeconds=0")
    overlapped = []
    node = single.nodes[NODE]

    def second_runs() -> bool:
        if node.processes(first.uid) and node.processes(second.uid):
            overlapped.append(second.uid)
        return phase(single, second) == "Running"

    single.wait_for(second_runs, "the second Pod runs", timeout_s=420, every_s=0.2)
    assert not overlapped
    ended(single, second)


def test_a_device_plugin_that_restarts_costs_no_pod(single: KubeletSite) -> None:
    plugin = single.nodes[NODE].device_plugin
    assert plugin is not None
    keeps = one_cpu(single, "keeps", gpus=2)
    assert len(runs(single, keeps)[0].split(",")) == 2
    plugin.stop()
    single.wait_for(lambda: allocatable(single) == "0", "no device is allocatable")
    assert phase(single, keeps) == "Running"
    ended(single, keeps)
    waits = one_cpu(single, "waits", gpus=1)
    single.elapse(5)
    assert phase(single, waits) == "Pending"
    plugin.start()
    assert runs(single, waits, timeout_s=180)[0].startswith("gpu-")
    ended(single, waits)


def test_a_kubelet_that_restarts_has_no_device_until_the_plugin_registers_and_rejects_no_pod(
    single: KubeletSite,
) -> None:
    node = single.nodes[NODE]
    keeps = one_cpu(single, "keeps", gpus=1)
    runs(single, keeps)
    node.kubelet.restart()
    single.wait_for(lambda: allocatable(single) == str(GPUS), "the device plugin has registered again")
    assert phase(single, keeps) == "Running"
    ended(single, keeps)
    after = one_cpu(single, "after", gpus=GPUS)
    assert len(runs(single, after, timeout_s=180)[0].split(",")) == GPUS
    ended(single, after)


def test_an_eviction_by_node_pressure_ends_the_job(single: KubeletSite) -> None:
    node = single.nodes[NODE]
    pod = one_cpu(single, "evicted")
    runs(single, pod)
    node.configure({"evictionHard": {"memory.available": "99%"}})
    try:
        single.wait_for(lambda: phase(single, pod) == "Failed", "the kubelet evicts the Pod", timeout_s=120)
    finally:
        node.configure({})
    found = single.read(pod)
    assert found is not None
    assert found["status"]["reason"] == "Evicted"
    prefix = f"{pod.namespace}/{pod.name}-"
    single.wait_for(lambda: not any(job.name.startswith(prefix) for job in single.squeue()), "its job is over")
    single.wait_for(
        lambda: not single.kube.api("GET", f"/api/v1/nodes/{NODE}")[1]["spec"].get("taints"), "the pressure is over"
    )
