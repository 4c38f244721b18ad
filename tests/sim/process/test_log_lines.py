"""What an operator who searches the log for a Pod finds."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from extender.config.serving import LogFormat, LogLevel
from extender.observability.line_limit import BURST, EVERY_S
from extender.observability.logs import set_up
from simulator.kube.faults import KubeFault
from tests.builders.process_site import NAMES, Site

pytestmark = pytest.mark.looptime


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    found = io.StringIO()
    set_up(LogLevel.INFO, LogFormat.JSON, found)
    yield found
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_what_an_adapter_logs_while_it_works_for_a_pod_names_pod_job_and_command(
    site: Site, out: io.StringIO
) -> None:
    async with site.running():
        site.kube.faults.add(KubeFault("PATCH", "/pods/web$", code=403))
        site.kube.add_pod("web")
        uid = site.uid("web")
        await site.bound("web")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    refused = next(line for line in lines if line["msg"] == "grant_not_written")
    assert (refused["pod"], refused["uid"], refused["source"]) == ("default/web", uid, "WakePod")
    assert refused["job_id"] == 1
    life = [line["msg"] for line in lines if uid in {line.get("uid"), line.get("workload")}]
    assert life[:2] == ["pods_arrive_ungated", "job_submitted"]
    assert "pod_bound" in life


async def test_writes_on_nodes_that_are_refused_for_long_are_a_line_at_each_change_and_one_a_minute(
    site: Site, out: io.StringIO
) -> None:
    def said(message: str) -> list[dict[str, object]]:
        lines = map(json.loads, out.getvalue().splitlines())
        return [line for line in lines if line["msg"] == message]

    def tried() -> int:
        return sum(one.method == "PATCH" and one.path.startswith("/api/v1/nodes/") for one in site.kube.requests)

    async with site.running():
        refused = site.kube.faults.add(KubeFault("PATCH", "/api/v1/nodes/", code=403, reason="Forbidden", times=None))
        for name in NAMES:
            site.slurm.controller.drain(name, "disk")
        await asyncio.sleep(170)
        told = said("node_not_marked")
        assert tried() > 50
        assert [line["times"] == 1 for line in told] == [True, False, False]
        assert sum(int(str(line["times"])) for line in told) > 30
        assert said("node_condition_written") == []
        site.kube.faults.remove(refused)
        ill = site.kube.faults.add(KubeFault("PATCH", "/api/v1/nodes/", code=500, times=None))
        await asyncio.sleep(20)
        assert len(said("node_not_marked")) == 4
        site.kube.faults.remove(ill)
        await asyncio.sleep(20)
        assert sorted(str(line["node"]) for line in said("node_condition_written")) == sorted(NAMES)
        assert len(said("node_not_marked")) == 4


FAULTY = {"slurm-extender.io/time-limit": "soon"}
INCOMPLETE = {"slurm-extender.io/gang": "g", "slurm-extender.io/gang-size": "2"}


async def test_an_author_who_changes_annotations_for_ever_adds_a_line_each_ten_seconds(
    site: Site, out: io.StringIO
) -> None:
    def said() -> list[dict[str, object]]:
        lines = map(json.loads, out.getvalue().splitlines())
        return [line for line in lines if line["msg"] == "pod_refused" and line["workload"] == uid]

    def change(wanted: dict[str, str]) -> None:
        site.edit_pod("web", lambda pod: pod["metadata"].update(annotations=wanted))

    async with site.running():
        site.kube.add_pod("web", cpu="2", annotations=FAULTY)
        uid = site.uid("web")
        for number in range(400):
            change((INCOMPLETE, FAULTY)[number % 2])
            await asyncio.sleep(0.1)
        assert BURST <= len(said()) <= BURST + 40 / EVERY_S
        await asyncio.sleep(EVERY_S)
        for wanted in (INCOMPLETE, FAULTY):
            change(wanted)
            await asyncio.sleep(1)
        assert sum(int(str(line.get("times", 1))) for line in said()) == 202
