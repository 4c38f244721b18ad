"""The play of `make demo`, on virtual time."""

from __future__ import annotations

import asyncio
import io
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from extender.http.inspection import Inspection
from simulator.cluster import SimCluster, in_background, simulated_cluster
from simulator.demo.environment import DemoEnvironment, nodes, partitions
from simulator.demo.program import END_OF_LINE, END_OF_SCREEN, HOME, LINES_OF_CHANGES, Screen
from simulator.demo.scenario import DRAINED, STEPS, run_steps
from simulator.demo.table import render_table
from simulator.kube.resources import EVENTS
from simulator.progress import progress_lines
from simulator.slurm.job_lifecycle import SimConfig
from simulator.slurm.records import ENDED

pytestmark = pytest.mark.looptime

CONFIG = SimConfig(kill_wait_s=10.0, send_user_signal=True)


async def test_everything_that_the_play_promises_happens() -> None:
    said: list[str] = []
    async with (
        simulated_cluster(SimCluster, nodes=nodes(), partitions=partitions(), slurm_config=CONFIG) as cluster,
        cluster.running() as extender,
        cluster.client() as client,
    ):
        client.base_url = "http://slurm:6820"
        client.headers["X-SLURM-USER-TOKEN"] = "t"
        inspection = Inspection(extender)

        async def placeholders() -> Sequence[Mapping[str, Any]]:
            return list(inspection.placeholders())

        stage = DemoEnvironment(cluster.kube, cluster.slurm.controller, client, placeholders)
        shown: list[str] = []
        printed = io.StringIO()
        screen = Screen(printed, asyncio.get_running_loop().time)

        def show_step(text: str) -> None:
            said.append(text)
            shown.append(render_table(stage, inspection.placeholders(), 120))

        async with in_background(screen.show(stage)):
            await run_steps(stage, show_step)
        reasons = {event["reason"] for event in cluster.kube.storage.of(EVENTS)}
        known = cluster.slurm.controller.known_jobs()
        assert not stage.pods()
        assert not cluster.drained()
        assert all(job.state in ENDED for job in known)
        native = {job.name: job.state for job in known if stage.is_native(job)}
        assert native == {"train-1": "COMPLETED", "train-2": "COMPLETED", "urgent": "COMPLETED"}
        assert "SlurmAllocationLost" in reasons
        [began] = [job.start_time for job in known if job.name == "urgent"]
        on_it = [job for job in known if job.nodes == ("node-2",) and job.start_time < began]
        assert all(job.end_time <= began for job in on_it)
    assert said == [scene.says for scene in STEPS]
    assert any("waits" in text or "wait before it" in text for text in shown)
    assert DRAINED in shown[-1]
    assert any(re.search(r"^node-\d +ALLOCATED +8 of 8", text, re.MULTILINE) for text in shown)
    lines = printed.getvalue()
    assert re.search(r"^ *\+\d+ s  Pod web-1 runs on node-\d, job \d+$", lines, re.MULTILINE)
    assert re.search(r"Pod \S+ gets SIGTERM \(PreemptionBySlurm\), \d+ s grace$", lines, re.MULTILINE)
    assert re.search(r"job \d+ urgent runs on node-2$", lines, re.MULTILINE)
    assert re.search(rf"machine {DRAINED} is \w+\+DRAIN$", lines, re.MULTILINE)
    assert f"machine {DRAINED} is resumed" in lines
    assert "Pod etl-1 has succeeded" in lines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_a_terminal_is_redrawn_in_place_with_the_last_changes() -> None:
    async with (
        simulated_cluster(SimCluster, nodes=nodes(), partitions=partitions()) as cluster,
        cluster.client() as client,
    ):

        async def placeholders() -> Sequence[Mapping[str, Any]]:
            return ()

        stage = DemoEnvironment(cluster.kube, cluster.slurm.controller, client, placeholders)
        out = Terminal()
        screen = Screen(out, lambda: 7.0)
        screen.show_step("A step.")
        stage.job("etl", cpus=1, completions=LINES_OF_CHANGES + 5, run_for_s=1)
        screen.draw(stage, ())
    text = out.getvalue()
    assert text.startswith(HOME)
    assert text.endswith(END_OF_SCREEN)
    assert text.count("waits") == LINES_OF_CHANGES
    assert "+0 s  A step." in text
    assert all(END_OF_LINE in line for line in text.splitlines()[:-1])


def test_progress_is_printed_until_the_end() -> None:
    said: list[str] = []
    printed = threading.Event()

    def show_step(text: str) -> None:
        said.append(text)
        printed.set()

    times = iter([0.0])
    with progress_lines(600.0, 0.001, show_step) as watch:
        watch(lambda: next(times, 120.0))
        assert printed.wait(30)
    count = len(said)
    assert said[0] == "virtual minute 2 of 10"
    assert len(said) == count


async def test_an_empty_table_has_its_heads() -> None:
    async with (
        simulated_cluster(SimCluster, nodes=nodes(), partitions=partitions()) as cluster,
        cluster.client() as client,
    ):

        async def placeholders() -> Sequence[Mapping[str, Any]]:
            return ()

        text = render_table(DemoEnvironment(cluster.kube, cluster.slurm.controller, client, placeholders), (), 40)
    assert text.startswith("POD")
    assert max(map(len, text.splitlines())) <= 40
