"""One picture of a machine: what either side says of it, the other shows, and each takes away its own alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from extender.domain.wellknown import SLURM_UNAVAILABLE, UNAVAILABLE_CONDITION
from tests.builders.stage import OURS, Stage


def slurm_node(stage: Stage, node: str) -> str:
    return stage.site.slurm.run("scontrol", "--oneliner", "show", "node", node)


def drained(stage: Stage, node: str) -> bool:
    return "DRAIN" in slurm_node(stage, node).partition(" State=")[2].split()[0]


def condition(stage: Stage, node: str) -> tuple[str, str]:
    """Status and message; "" where there is none."""
    _, found = stage.site.kube.api("GET", f"/api/v1/nodes/{node}")
    for one in found["status"]["conditions"]:
        if one["type"] == UNAVAILABLE_CONDITION:
            return one["status"], one["message"]
    return "", ""


def noted(stage: Stage, node: str) -> bool:
    _, found = stage.site.kube.api("GET", f"/api/v1/nodes/{node}")
    return SLURM_UNAVAILABLE in found["metadata"].get("annotations", {})


@contextmanager
def cordoned(stage: Stage, node: str) -> Iterator[None]:
    stage.site.patch_node(node, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        stage.site.patch_node(node, {"spec": {"unschedulable": None}})


@pytest.mark.modes("batch", slow=("24.11",))
def test_a_cordon_drains_slurm_s_node_for_as_long_as_it_lasts_and_comes_to_no_condition(stage: Stage) -> None:
    site, node = stage.site, stage.family.nodes[-1]
    with cordoned(stage, node):
        site.wait_for(lambda: drained(stage, node), "the cordon arrives in Slurm", timeout_s=10)
        assert f"Reason={OURS}" in slurm_node(stage, node)
        assert f"Node {node} is cordoned" in slurm_node(stage, node)
        site.slurm.run("scontrol", "update", f"nodename={node}", "state=undrain")
        site.wait_for(lambda: drained(stage, node), "the drain is put back", timeout_s=10)
        assert condition(stage, node)[0] != "True"
    site.wait_for(lambda: not drained(stage, node), "the drain is lifted", timeout_s=20)


@pytest.mark.modes("batch", slow=("24.11",))
def test_a_person_s_drain_stands_on_the_node_until_it_is_resumed_and_is_not_lifted_by_us(stage: Stage) -> None:
    site, node = stage.site, stage.family.nodes[-1]
    site.slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=bad disk")
    try:
        site.wait_for(lambda: condition(stage, node)[0] == "True", "the condition", timeout_s=20)
        assert f"Slurm node {node} is DRAIN: bad disk" in condition(stage, node)[1]
        assert "(set by root)" in condition(stage, node)[1]
        assert noted(stage, node)
        with cordoned(stage, node):
            site.elapse(2)
        site.elapse(2)
        assert "Reason=bad disk" in slurm_node(stage, node)
    finally:
        site.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    site.wait_for(lambda: condition(stage, node)[0] == "False", "the end of the condition", timeout_s=20)
    assert not noted(stage, node)
    assert not drained(stage, node)
