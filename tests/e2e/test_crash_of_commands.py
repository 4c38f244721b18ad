"""The extender is killed in every command that it carries out, by a relay that sees its requests pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from extender.domain.commands import Command
from extender.domain.nodes.machine import NodeCommand
from lab.site import PodRef, Site
from tests.builders.actions import CHECK
from tests.builders.crashes import CRASHES
from tests.builders.relay import InjectedFault, RequestPhase
from tests.builders.relays_of_a_site import RelayPair
from tests.builders.stage import Stage

IN_EVERY_RUN = {"SubmitJob", "CancelJob", "Binding", "EndPod", "DrainNode"}
"""Each takes ten seconds: the other commands belong to `make prove`, and all of them to every run of the simulator."""

HELD_S = 200.0
"""A Pod that left while no extender was there holds its node until its kubelet must have heard of that."""

SETTLED_S = 1.0
"""For which order has to last: what was sent in the middle of something may arrive late."""


@pytest.fixture(scope="module")
def relay_pair(site: Site, relay_pair: RelayPair) -> Iterator[RelayPair]:
    """Relays between the site's extender and those that it asks; the extender is behind them in all tests."""
    site.reconfigure(relay_pair.settings)
    yield relay_pair
    site.reconfigure()


def cases() -> Iterator[object]:
    """Every command and moment; of some commands one moment belongs to every run, in turn."""
    for row, name in enumerate(CRASHES):
        # What asks nobody is killed before the request that it leads to.
        moments = list(RequestPhase) if name != CHECK else [RequestPhase.BEFORE]
        for place, moment in enumerate(moments):
            quick = name.partition(" ")[0] in IN_EVERY_RUN and place == row % len(moments)
            marks = () if quick else (pytest.mark.slow,)
            yield pytest.param(name, moment, id=f"{name}-{moment.name}", marks=marks)


def test_every_command_is_there() -> None:
    named = {name.partition(" ")[0] for name in CRASHES}
    commands = {one.__name__ for one in (*get_args(Command), *get_args(NodeCommand))}
    # A gang has one job for several Pods: it has tests of its own (`test_crash_of_gangs`).
    assert named == commands - {"ShrinkJob"} | {"Binding", CHECK}


@pytest.mark.modes(slow=("26.05", "24.11-allocation", "auto"))
@pytest.mark.parametrize(("name", "moment"), list(cases()))
def test_a_kill_in_a_command_loses_and_doubles_nothing(
    stage: Stage, relay_pair: RelayPair, name: str, moment: RequestPhase
) -> None:
    site, crash = stage.site, CRASHES[name]
    pods = crash.before(stage)
    fault = InjectedFault(crash.pattern, moment, site.kill_extender)
    if crash.alone:
        site.kill_extender()
        pods += crash.cause(stage)
        relay_pair.arm(fault)
        site.extender.launch()
    else:
        relay_pair.arm(fault)
        pods += crash.cause(stage)
    fired = fault.fired.wait(60)
    relay_pair.disarm()
    if not fired and not site.extender.running:
        site.start_extender()
    assert fired, f"no {crash.pattern} within a minute: {site.diagnostics()}"
    site.start_extender()
    crash.after(stage)
    for pod in pods:
        if pod.name in crash.ended:
            site.gone(pod, timeout_s=60)
    site.wait_for(lambda: in_order(stage), "every Pod runs on its one job, and every job has its Pod", timeout_s=HELD_S)
    site.elapse(SETTLED_S)
    assert in_order(stage), site.diagnostics()
    for pod in pods:
        granted = [job for job in stage.jobs(pod, "all") if job.node and job.state != "FAILED"]
        assert len(granted) <= crash.granted, f"{pod.name} was given nodes more than once: {granted}"


def in_order(stage: Stage) -> bool:
    """Every Pod that is not over runs on its one live job; no job lives without its Pod; nothing is drained by us."""
    site, live = stage.site, stage.jobs()
    kept: set[int] = set()
    for pod in site.pods(stage.namespace):
        if pod["status"].get("phase") in {"Succeeded", "Failed"}:
            continue
        ref = PodRef(stage.namespace, pod["metadata"]["name"], pod["metadata"]["uid"])
        own = stage.jobs(ref)
        if len(own) != 1 or not pod["spec"].get("nodeName") or own[0].state != "RUNNING":
            return False
        kept.add(own[0].job_id)
    return {job.job_id for job in live} == kept and not stage.drained()
