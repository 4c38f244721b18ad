"""A real kubelet rejects exactly the Pods that are too much by the simulator's own sums."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from lab.kubelet_site import KubeletSite
from lab.pods import container
from lab.site import PodRef
from simulator.kube.kubelet_admission import exceeded_resources, quantity
from simulator.kube.objects import Json
from tests.builders.kube_sites import NODE
from tests.contract.kubelet.conftest import MAX_PODS

pytestmark = [pytest.mark.lab, pytest.mark.kubelet]

RUNS = 'trap "exit 0" TERM; while :; do sleep 0.1; done'
FINISHED_PHASES = ("Succeeded", "Failed")

_numbers = count(1)


class Tenants:
    """The Pods of the real node, created one after the other without any scheduler."""

    def __init__(self, site: KubeletSite) -> None:
        self.site = site
        self.namespace = site.namespace(f"admission-{next(_numbers)}")
        self.pods: list[PodRef] = []

    @property
    def node(self) -> Json:
        """The Node as it is."""
        found: Json = self.site.kube.api("GET", f"/api/v1/nodes/{NODE}")[1]
        return found

    @property
    def milli_cpus(self) -> int:
        """Thousandths of CPUs that are allocatable."""
        return int(quantity(self.node["status"]["allocatable"]["cpu"]) * 1000)

    def live(self) -> list[Json]:
        """Return the Pods that have not ended."""
        return [pod for pod in self.site.pods(self.namespace) if pod["status"].get("phase") not in FINISHED_PHASES]

    def comes(self, script: str = RUNS, *, grace_s: int = 1, **spec: Any) -> tuple[PodRef, list[str], list[str]]:
        """Let a Pod come; return the resources that the kubelet lacks for it, and those by the simulator's sums."""
        fields = {"containers": [requesting("main", script=script)], **spec}
        name, there = f"p{len(self.pods)}", self.live()
        pod = self.site.pod(name, self.namespace, scheduler="none", nodeName=NODE, grace_s=grace_s, **fields)
        self.pods.append(pod)
        lacking = exceeded_resources(self.node, [*there, self.site.read(pod) or {}])
        known = self.site.wait_for(lambda: self._verdict(pod), f"the kubelet has decided on Pod {name}", timeout_s=60)
        rejected = [known.removeprefix("OutOf")] if known.startswith("OutOf") else []
        return pod, rejected, [one.partition(":")[0] for one in lacking]

    def leave(self) -> None:
        """Delete all Pods."""
        for pod in self.pods:
            self.site.delete(pod)
        for pod in self.pods:
            self.site.gone(pod, timeout_s=60)

    def _verdict(self, pod: PodRef) -> str:
        """Return the reason of a rejection, or the phase of a Pod that the kubelet took."""
        status = (self.site.read(pod) or {})["status"]
        started = status.get("initContainerStatuses") or status.get("containerStatuses")
        return status.get("reason") or (status["phase"] if started or status["phase"] in FINISHED_PHASES else "")


def requesting(name: str, cpus: str = "100m", memory: str = "16Mi", *, script: str = RUNS, **more: Any) -> Json:
    """Return a container that requests so much, and is limited by nothing."""
    made = container(script, name=name, **more)
    made["resources"] = {"requests": {"cpu": cpus, "memory": memory}}
    return made


@pytest.fixture
def tenants(real_kubelet: KubeletSite) -> Iterator[Tenants]:
    found = Tenants(real_kubelet)
    yield found
    found.leave()


def test_a_pod_that_fills_the_node_is_taken_and_one_thousandth_more_is_not(tenants: Tenants) -> None:
    whole = tenants.milli_cpus
    _, rejected, lacking = tenants.comes(containers=[requesting("main", f"{whole}m")])
    assert (rejected, lacking) == ([], [])
    _, rejected, lacking = tenants.comes(containers=[requesting("main", "1m")])
    assert (rejected, lacking) == (["cpu"], ["cpu"])


def test_several_pods_are_summed_each_rounded_up(tenants: Tenants) -> None:
    rest = tenants.milli_cpus - 1000
    for cpus, expected in ((f"{rest}m", []), ("500m", []), ("499500u", []), ("500u", ["cpu"])):
        _, rejected, lacking = tenants.comes(containers=[requesting("main", cpus)])
        assert (rejected, lacking) == (expected, expected), cpus


def test_one_byte_of_memory_too_much_is_not_taken(tenants: Tenants) -> None:
    most = int(quantity(tenants.node["status"]["allocatable"]["memory"]))
    for memory, expected in ((most + 1, ["memory"]), (most, [])):
        _, rejected, lacking = tenants.comes(containers=[requesting("main", memory=str(memory))])
        assert (rejected, lacking) == (expected, expected)


def test_init_containers_and_sidecars_count_while_they_run(tenants: Tenants) -> None:
    whole = tenants.milli_cpus
    half = whole // 2
    sidecar = requesting("beside", f"{half}m", restartPolicy="Always")
    for first, expected in ((whole - half + 1, ["cpu"]), (whole - half, [])):
        init = requesting("first", f"{first}m", script="exit 0")
        _, rejected, lacking = tenants.comes(initContainers=[sidecar, init])
        assert (rejected, lacking) == (expected, expected)


def test_an_ending_pod_counts_and_one_that_has_ended_does_not(tenants: Tenants) -> None:
    whole = f"{tenants.milli_cpus}m"
    slow = 'trap "sleep 4; exit 0" TERM; while :; do sleep 0.1; done'
    first, *_ = tenants.comes(grace_s=30, containers=[requesting("main", whole, script=slow)])
    tenants.site.wait_for(
        lambda: (tenants.site.read(first) or {})["status"]["phase"] == "Running", "the first Pod runs"
    )
    tenants.site.delete(first)
    _, rejected, lacking = tenants.comes()
    assert (rejected, lacking) == (["cpu"], ["cpu"])
    tenants.site.gone(first, timeout_s=60)
    done, rejected, lacking = tenants.comes(containers=[requesting("main", whole, script="exit 0")])
    assert (rejected, lacking) == ([], [])
    tenants.site.wait_for(
        lambda: (tenants.site.read(done) or {})["status"]["phase"] == "Succeeded", "the Pod has ended"
    )
    _, rejected, lacking = tenants.comes(containers=[requesting("main", whole)])
    assert (rejected, lacking) == ([], [])


def test_one_pod_more_than_the_node_takes_is_rejected(tenants: Tenants) -> None:
    for _ in range(MAX_PODS):
        _, rejected, lacking = tenants.comes()
        assert (rejected, lacking) == ([], [])
    _, rejected, lacking = tenants.comes()
    assert (rejected, lacking) == (["pods"], ["pods"])
