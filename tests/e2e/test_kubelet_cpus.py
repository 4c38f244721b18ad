"""Real kubelets and dra-driver-cpu: a container may use exactly the cores that Slurm allocated.

The machine has two CPUs, so a Pod gets one or the other. A native job decides which one Slurm gives first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from extender.domain.devices.cpu_order import order_of_lscpu, order_text, read_order
from extender.domain.wellknown import CPUS, GATE
from extender.slurm.linux_cpus import cpu_table
from lab.build_slurm import RELEASES
from lab.cpu_driver import CLASS, cpu_driver
from lab.devices import API, grant_devices
from lab.kubelet_site import KubeletSite
from lab.node import KubeletOptions
from lab.pods import container
from lab.site import PodRef
from lab.slurm_conf import SlurmNode
from lab.topology import one_node

pytestmark = [pytest.mark.lab, pytest.mark.kubelet, pytest.mark.slow]

NODE = "node-1"
PODS = 30
SHOW = "grep Cpus_allowed_list /proc/self/status; "
RUNS = 'trap "exit 0" TERM; while :; do sleep 0.1; done'


@pytest.fixture(scope="module", params=RELEASES)
def pinned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletSite]:
    """One node with the two CPUs of this machine, and the driver on it."""
    node = SlurmNode(NODE, cpus=2, memory_mb=4000)
    config: dict[str, dict[str, Any]] = {"slurm": {"killWait": "10s", "defaultPartition": "batch"}}
    kubelets = KubeletOptions(real_size=True)
    workdir = tmp_path_factory.mktemp("cpus")
    with KubeletSite(
        request.param, topology=one_node(node), real=[NODE], kubelets=kubelets, config=config, workdir=workdir
    ) as found:
        grant_devices(found)
        selector = {"cel": {"expression": f"device.driver == '{CLASS}'"}}
        found.create(f"{API}/deviceclasses", described("DeviceClass", CLASS, {"selectors": [selector]}))
        order = order_text(order_of_lscpu(cpu_table()))
        found.patch_node(NODE, {"metadata": {"annotations": {CPUS: order}}})
        driver = cpu_driver(found.nodes[NODE], found.kube.kubeconfig_for("admin"))
        driver.start()
        found.wait_for(lambda: published(found), "the driver has published its device", timeout_s=120)
        found.reconfigure(more="\ncpus: {}\n")
        yield found


def described(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def published(pinned: KubeletSite) -> bool:
    items = pinned.kube.api("GET", f"{API}/resourceslices")[1]["items"]
    return any(device["name"] == "cpudevmachine" for one in items for device in one["spec"].get("devices", ()))


def with_resource_claim(pinned: KubeletSite, name: str, namespace: str) -> PodRef:
    """Create a Guaranteed Pod with a ResourceClaim for its one CPU."""
    made = container(SHOW + RUNS, memory="64Mi")
    made["resources"]["claims"] = [{"name": "cpus"}]
    resource_claims = [{"name": "cpus", "resourceClaimTemplateName": "one-cpu"}]
    gates = [{"name": GATE}]
    return pinned.pod(
        name, namespace, containers=[made], grace_s=2, resourceClaims=resource_claims, schedulingGates=gates
    )


def allowed(pinned: KubeletSite, pod: PodRef) -> set[int]:
    """Wait until the container has written which CPUs it may use."""

    def shown() -> str:
        log = pinned.kube.kubectl("logs", "-n", pod.namespace, pod.name, "--ignore-errors")
        return log.partition("Cpus_allowed_list:")[2].strip()

    pinned.wait_for(
        lambda: (pinned.read(pod) or {})["status"].get("phase") == "Running", f"{pod.name} runs", timeout_s=90
    )
    return set(read_order(pinned.wait_for(shown, f"the log of {pod.name}")))


def given(pinned: KubeletSite, pod: PodRef) -> set[int]:
    """Return the Linux CPUs of the cores that Slurm shows for the job of a Pod."""
    order = order_of_lscpu(cpu_table())
    [job] = [one for one in pinned.squeue() if one.name.startswith(f"{pod.namespace}/{pod.name}-")]
    return {order[core] for core in read_order(pinned.scontrol_show_job(job.job_id)["CPU_IDs"])}


def test_the_container_may_use_exactly_the_cores_that_slurm_allocated(
    pinned: KubeletSite, record_property: Callable[[str, object], None]
) -> None:
    """Each Pod comes while the one before still runs, so that they take turns on the two CPUs."""
    where = pinned.namespace("cpus")
    request = {"name": "cpus", "exactly": {"deviceClassName": CLASS, "capacity": {"requests": {f"{CLASS}/cpu": "1"}}}}
    body = described("ResourceClaimTemplate", "one-cpu", {"spec": {"devices": {"requests": [request]}}})
    pinned.create(f"{API}/namespaces/{where}/resourceclaimtemplates", body)
    command = ("sbatch", "--parsable", "--output=/dev/null", "-n1", "-c1", "--mem=100", "--wrap", "sleep 600")
    native = pinned.slurm.run(*command).strip()
    pinned.wait_for(lambda: any(one.state == "RUNNING" for one in pinned.squeue()), "the native job runs")
    seen: list[int] = []
    before: PodRef | None = None
    for number in range(PODS):
        pod = with_resource_claim(pinned, f"p{number}", where)
        may = allowed(pinned, pod)
        assert may == given(pinned, pod)
        seen += may
        if number == 0:
            pinned.slurm.run("scancel", native)
        if before is not None:
            pinned.delete(before)
            pinned.gone(before, timeout_s=60)
        before = pod
    row = {
        "Slurm": pinned.release,
        "containers": str(PODS),
        "on CPU 0": str(seen.count(0)),
        "on CPU 1": str(seen.count(1)),
    }
    record_property("table: CPUs that containers may use, which are the cores of their jobs", row)
    assert len(seen) == PODS
    assert min(seen.count(0), seen.count(1)) >= 10
