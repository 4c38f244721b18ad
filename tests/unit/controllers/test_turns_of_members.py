"""A gang of many Pods costs each change little, and other tasks run between its members."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from extender.assembly.io_context import LoopClock
from extender.controllers.explanations import Explanations
from extender.controllers.gates import GateController
from extender.domain import events as e
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.wellknown import GATE
from extender.runtime import cooperative_yield
from tests.builders.placeholders import in_state
from tests.builders.pod_views import a_node, a_pod

pytestmark = pytest.mark.looptime

MEMBERS = 300


async def test_a_changed_node_is_reported_once_to_a_gang_and_not_once_to_each_of_its_members() -> None:
    reported: list[tuple[str, int, frozenset[str]]] = []

    def report(key: str, uids: Collection[str], nodes: frozenset[str], _cause: str, *, computed: bool) -> None:
        assert computed
        reported.append((key, len(uids), nodes))

    nodes = [a_node("n1")]
    gates = GateController(
        cast("Any", SimpleNamespace(report_together=report)),
        cast("Any", SimpleNamespace(has_full=lambda _uid: False)),
        cast("Any", SimpleNamespace(key_of_uid=lambda uid: "gang-x" if uid.startswith("ring") else uid)),
        cast("Any", None),
        schedulers=["slurm"],
        nodes=lambda: nodes,
        repelling=list,
    )
    for uid in ("alone", *(f"ring-{number}" for number in range(MEMBERS))):
        gates.pod_changed(None, a_pod(uid=uid, name=uid, gates=(GATE,), scheduler_name="slurm"))
    task = asyncio.create_task(gates.run())
    await asyncio.sleep(1)
    first = frozenset({"n1"})
    assert sorted(reported) == [("alone", 1, first), ("gang-x", MEMBERS, first)]
    reported.clear()
    nodes.append(a_node("n2"))
    gates.node_changed(None, nodes[1])
    await asyncio.sleep(1)
    task.cancel()
    both = frozenset({"n1", "n2"})
    assert sorted(reported) == [("alone", 1, both), ("gang-x", MEMBERS, both)]


async def test_other_tasks_run_while_the_members_of_a_gang_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative_yield, "SLICE_S", -1.0)
    refs = [e.MemberRef(f"uid-{number}", "team", f"x-{number}") for number in range(MEMBERS)]
    gang: Placeholder = replace(in_state(State.ABSENT), key="gang-x", members=tuple(map(Member, refs)))
    order: list[str] = []

    class Cache:
        def get(self, uid: str) -> None:
            order.append(uid)

    async def other() -> None:
        for _ in range(MEMBERS):
            order.append("other")
            await asyncio.sleep(0)

    placeholders = SimpleNamespace(get=lambda _key: gang, namespace_of=lambda _key: "team", all={"gang-x": gang})
    engine = SimpleNamespace(placeholders=placeholders, explain=lambda _p: pytest.fail("there is no Pod"))
    explanations = Explanations(
        cast("Any", engine), cast("Any", None), cast("Any", Cache()), cast("Any", None), LoopClock()
    )
    tasks = [asyncio.create_task(explanations.run()), asyncio.create_task(other())]
    await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()
    first, last = order.index("uid-0"), order.index(f"uid-{MEMBERS - 1}")
    assert order[first:last].count("other") > MEMBERS / 2
