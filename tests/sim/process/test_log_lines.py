"""What an operator who searches the log for a Pod finds."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from extender.config.serving import LogFormat, LogLevel
from extender.logs import set_up
from extender.sim.kube.faults import Fault
from tests.builders.process_site import Site

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
        site.kube.faults.add(Fault("PATCH", "/pods/web$", code=403))
        site.kube.add_pod("web")
        uid = site.uid("web")
        await site.bound("web")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    refused = next(line for line in lines if line["msg"] == "the Pod was not told of its node")
    assert (refused["pod"], refused["uid"], refused["cause"]) == ("default/web", uid, "WakePod")
    assert refused["job_id"] == 1
    life = [line["msg"] for line in lines if line.get("uid") == uid]
    assert life[0] == "job_submitted"
    assert "pod_bound" in life
