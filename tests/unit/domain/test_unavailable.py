"""What of a Slurm node's state Kubernetes is to hear of."""

from __future__ import annotations

import pytest

from extender.domain.cluster import SlurmNode
from extender.domain.nodes.drain_reasons import with_earlier_reason
from extender.domain.nodes.unavailable import LONGEST, SILENT_FOR, unavailable


def a_node(state: str = "IDLE", *flags: str, reason: str = "", user: str = "") -> SlurmNode:
    return SlurmNode("n1", state=state, flags=frozenset(flags), reason=reason, reason_user=user)


@pytest.mark.parametrize(
    ("node", "reason", "text", "said"),
    [
        (a_node("IDLE", "DRAIN", reason="disk", user="al"), "SlurmDrained", "DRAIN: disk (set by al)", True),
        (a_node("DOWN", "NOT_RESPONDING", reason="Not responding"), "SlurmDown", "DOWN: Not responding", False),
        (a_node("DOWN", "DRAIN", reason="disk"), "SlurmDown", "DOWN and DRAIN: disk", True),
        (a_node("MIXED", "FAIL", reason="fan"), "SlurmFail", "FAIL: fan", True),
        (a_node("IDLE", "MAINTENANCE", "RESERVED"), "SlurmMaintenance", "MAINTENANCE", True),
        (a_node("IDLE", "NOT_RESPONDING"), "SlurmNotResponding", "NOT_RESPONDING", False),
        (a_node("IDLE", "MAINTENANCE", reason="an old disk"), "SlurmMaintenance", "MAINTENANCE", True),
        (a_node("IDLE", "NOT_RESPONDING", reason="an old disk"), "SlurmNotResponding", "NOT_RESPONDING", False),
        (a_node("DOWN", "DRAIN", reason="slurm-extender: [01234567] cordoned"), "SlurmDown", "DOWN", False),
        (
            a_node(
                "DOWN",
                "DRAIN",
                reason=with_earlier_reason("slurm-extender: [01234567] cordoned", "bad DIMM"),
                user="root",
            ),
            "SlurmDown",
            "DOWN: bad DIMM",
            False,
        ),
    ],
)
def test_a_node_that_slurm_gives_nothing_new_says_why(node: SlurmNode, reason: str, text: str, said: bool) -> None:
    found = unavailable(node, SILENT_FOR)
    assert found is not None
    assert (found.reason, found.text, found.manual) == (reason, f"Slurm node n1 is {text}", said)


@pytest.mark.parametrize("flags", [(), ("COMPLETING",), ("PLANNED", "EXTERNAL"), ("RESERVED",), ("POWERED_DOWN",)])
def test_a_node_that_takes_jobs_says_nothing(flags: tuple[str, ...]) -> None:
    assert unavailable(a_node("MIXED", *flags)) is None


@pytest.mark.parametrize("owner", ["[01234567] ", "[89abcdef] ", ""])
def test_no_drain_of_any_extender_is_reported(owner: str) -> None:
    assert unavailable(a_node("IDLE", "DRAIN", reason=f"slurm-extender: {owner}Node k1 is cordoned")) is None


def test_a_moment_of_silence_is_not_reported() -> None:
    assert unavailable(a_node("IDLE", "NOT_RESPONDING"), SILENT_FOR - 0.1) is None


def test_a_long_reason_is_shortened() -> None:
    found = unavailable(a_node("IDLE", "DRAIN", reason="x" * 5000))
    assert found is not None
    assert len(found.text) < LONGEST + 50
