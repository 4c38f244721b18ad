"""What Kubernetes says of a Node, on the real parts: each drains Slurm's node until it is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.stage import DRAIN_MARK, Stage
from tests.e2e.test_node_states import drained, slurm_node

pytestmark = pytest.mark.modes("batch", slow=("24.11",))
BAD = {"key": "e2e/bad", "effect": "NoSchedule"}
SLURMD = {"app": "slurmd"}


@pytest.fixture
def watchful(stage: Stage) -> Iterator[Stage]:
    """The site with every cause that there is."""
    drain = {"notReadyAfter": "3s", "taints": [BAD["key"]], "conditions": ["KernelDeadlock"]}
    slurmds = {"namespace": stage.namespace, "labels": SLURMD}
    stage.site.reconfigure({"nodes": {"drain": drain, "slurmdPods": slurmds, "byName": True}})
    try:
        yield stage
    finally:
        stage.site.reconfigure()


def drains(stage: Stage, node: str, why: str, *, timeout_s: float = 20) -> None:
    """It is drained for that, and again where somebody lifts the drain."""
    site = stage.site
    site.wait_for(lambda: drained(stage, node), f"the drain: {why}", timeout_s=timeout_s)
    said = slurm_node(stage, node)
    assert f"Reason={DRAIN_MARK}" in said
    assert why in said
    site.slurm.run("scontrol", "update", f"nodename={node}", "state=undrain")
    site.wait_for(lambda: drained(stage, node), "the drain is put back", timeout_s=20)


def lifted(stage: Stage, node: str) -> None:
    stage.site.wait_for(lambda: not drained(stage, node), "the drain is lifted", timeout_s=60)


def condition(stage: Stage, node: str, status: str) -> None:
    said = {"type": "KernelDeadlock", "status": status, "reason": "Test", "message": "said by a test"}
    body: dict[str, Any] = {"status": {"conditions": [said]}}
    kind = "application/strategic-merge-patch+json"
    code, answer = stage.site.kube.api("PATCH", f"/api/v1/nodes/{node}/status", body, content_type=kind)
    assert code == 200, answer


def test_a_taint_a_condition_and_the_end_of_a_node_drain_it_for_as_long_as_they_last(watchful: Stage) -> None:
    site, node = watchful.site, watchful.family.nodes[-1]
    site.patch_node(node, {"spec": {"taints": [BAD]}})
    drains(watchful, node, f"taint {BAD['key']}")
    site.patch_node(node, {"spec": {"taints": None}})
    lifted(watchful, node)

    condition(watchful, node, "True")
    drains(watchful, node, "KernelDeadlock")
    condition(watchful, node, "False")
    lifted(watchful, node)

    site.kube.api("DELETE", f"/api/v1/nodes/{node}")
    drains(watchful, node, "deleted")
    site.kube.add_node(node, cpus=64, memory="512000Mi")
    site.kube.wait_nodes_ready()
    lifted(watchful, node)


@pytest.mark.slow
def test_the_pod_of_a_slurmd_that_goes_drains_its_node_until_another_is_ready(watchful: Stage) -> None:
    site, node = watchful.site, watchful.family.nodes[-1]

    def slurmd() -> Any:
        ref = site.pod(node, watchful.namespace, scheduler="another", nodeName=node, labels=SLURMD)
        site.wait_for(lambda: (site.read(ref) or {})["status"].get("phase") == "Running", "the slurmd runs")
        return ref

    first = slurmd()
    site.elapse(3)
    assert not drained(watchful, node)
    site.delete(first)
    site.gone(first)
    drains(watchful, node, node)
    slurmd()
    lifted(watchful, node)


@pytest.mark.slow
def test_nodes_whose_kubelets_fall_silent_are_drained_until_they_are_back(watchful: Stage) -> None:
    site, node = watchful.site, watchful.family.nodes[-1]
    site.kube.kwok.stop()
    try:
        drains(watchful, node, "not Ready", timeout_s=120)
    finally:
        site.kube.kwok.start()
    site.kube.wait_nodes_ready(timeout_s=120)
    lifted(watchful, node)
    site.wait_for(lambda: not watchful.drained(), "every drain is lifted", timeout_s=120)
