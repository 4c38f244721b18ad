"""The doctor compares the order of CPUs on a Node with the Node and with Slurm."""

from __future__ import annotations

import pytest

from extender.doctor.checks.cpus import orders
from extender.doctor.finding import Finding, Verdict
from extender.domain.cluster import SlurmNode
from extender.domain.devices.cpu_order import NodeCpus
from extender.domain.devices.device_map import CpuLine
from extender.domain.views import NodeView
from extender.domain.wellknown import CPUS

OK, WARNING, ERROR, SKIPPED = Verdict


def judged(annotation: str = "", *, capacity: str = "4", slurm: int = 4, registered: str = "") -> list[Finding]:
    node = NodeView("n1", annotations={CPUS: annotation} if annotation else {}, cpus=capacity)
    there = SlurmNode("s1", cpus=slurm, registered_for=registered)
    return list(orders(CpuLine(), {"n1": (NodeCpus.of(node, there), there)}))


def test_an_order_that_fits_node_and_slurm_is_counted() -> None:
    assert [(one.verdict, one.seen) for one in judged("0,2,1,3")] == [
        (OK, "1 Nodes have an order of their CPUs that fits Slurm's")
    ]


def test_a_registered_node_needs_no_annotation() -> None:
    (found,) = judged(slurm=3, registered="n1")
    assert found.verdict is OK


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "it has no annotation"),
        ({"annotation": "0-2"}, "has 3 CPUs, and the Node has 4"),
        ({"annotation": "0,x"}, "no CPU and no range"),
        ({"annotation": "0-3", "slurm": 2}, "its order has 4 CPUs, and its Slurm node 2"),
        ({"annotation": "0-3", "capacity": ""}, "capacity"),
    ],
)
def test_a_node_whose_order_does_not_fit_is_named_with_the_cause(given: dict[str, str], why: str) -> None:
    (found,) = judged(**given)  # type: ignore[arg-type]
    assert found.verdict is WARNING
    assert "n1" in found.seen
    assert why in found.seen
