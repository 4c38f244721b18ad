"""No author makes a line of the log long: not by many Pods, and not by long texts."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from extender.config.serving import LogFormat, LogLevel
from extender.controllers.gates import GateController
from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.views import AntiAffinity
from extender.domain.wellknown import GATE
from extender.engine.history import note, with_log_context
from extender.observability.logs import LONGEST_VALUE, set_up
from tests.builders.placeholders import in_state
from tests.builders.pod_views import a_pod

MANY = 1024
LONGEST_LINE = 16 * 2**10


@pytest.fixture(params=LogFormat)
def out(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    found = io.StringIO()
    set_up(LogLevel.DEBUG, request.param, found)
    yield found
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def lengths(out: io.StringIO) -> list[int]:
    return [len(line.encode()) for line in out.getvalue().splitlines()]


def a_gang(state: State) -> Placeholder:
    refs = [e.MemberRef(f"uid-{number}", "team", f"{'train-' * 40}{number}") for number in range(MANY)]
    return replace(in_state(state), key="gang-x", members=tuple(map(Member, refs)))


async def test_a_line_about_a_gang_of_a_thousand_pods_names_the_first_ones(out: io.StringIO) -> None:
    gang = a_gang(State.REFUSED)
    refused = replace(gang, payload=gang.payload, reason="wrong " * 10_000)
    note(replace(a_gang(State.ABSENT), key="gang-x"), refused, e.PodRefused(gang.refs, ("wrong",)), "gang")

    async def execute(_key: str, _command: c.Command) -> None:
        structlog.get_logger("extender.test").warning("grant_not_written")

    await with_log_context(lambda _key: gang, execute)("gang-x", c.NoteCancelled(gang.refs[0], cast("Any", None)))
    assert len(lengths(out)) == 2
    assert max(lengths(out)) < LONGEST_LINE
    assert out.getvalue().count(f"and {MANY - 8} more") == 2


async def test_a_pod_that_a_thousand_others_repel_is_ungated_with_a_short_line(out: io.StringIO) -> None:
    term = AntiAffinity(labels=(("app", "web"),), everywhere=True)
    repelling = [a_pod(uid=f"uid-{number}", name=f"other-{number}", anti_affinity=(term,)) for number in range(1000)]
    gates = GateController(
        *cast("tuple[Any, Any, Any, Any]", (None, None, SimpleNamespace(key_of_uid=str), None)),
        schedulers=["slurm"],
        nodes=list,
        repelling=lambda: repelling,
    )
    gates.pod_changed(None, a_pod(uid="uid", labels={"app": "web"}, gates=(GATE,), scheduler_name="slurm"))
    assert lengths(out) == [pytest.approx(600, abs=400)]
    assert "and 992 more" in out.getvalue()


def test_every_value_of_a_line_is_bounded_and_a_list_says_how_many_items_are_left_out(out: io.StringIO) -> None:
    names = [f"team/web-{number}" for number in range(10_000)]
    log = structlog.get_logger("extender.test")
    log.warning("missing_pods_gone", pods=names)
    log.info("odd", value={"deep": names})
    log.info("odd", value=set(names))
    logging.getLogger("library").warning("said %s", "x" * 100_000)
    assert len(lengths(out)) == 4
    assert max(lengths(out)) < 2 * LONGEST_VALUE
    if out.getvalue().startswith("{"):
        *first, last = json.loads(out.getvalue().splitlines()[0])["pods"]
        assert first == names[: len(first)]
        assert last == f"and {len(names) - len(first)} more"


def test_the_last_line_before_a_crash_is_whole(out: io.StringIO) -> None:
    structlog.get_logger("extender.test").critical("step_failed", history=["x" * 1000] * 50)
    assert lengths(out)[0] > 50_000
