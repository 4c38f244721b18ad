"""The play of `make demo`, on virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from extender.http.inspection import Inspection
from simulator.cluster import SimCluster, simulated_cluster
from simulator.demo.environment import DemoEnvironment, nodes, partitions
from simulator.demo.scenario import DRAINED, STEPS, run_steps
from simulator.demo.table import render_table
from simulator.kube.resources import EVENTS
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

        def say(text: str) -> None:
            said.append(text)
            shown.append(render_table(stage, inspection.placeholders(), 120))

        await run_steps(stage, say)
        reasons = {event["reason"] for event in cluster.kube.storage.of(EVENTS)}
        known = cluster.slurm.controller.known_jobs()
        assert not stage.pods()
        assert not cluster.drained()
        assert all(job.state in ENDED for job in known)
        theirs = {job.name: job.state for job in known if stage.theirs(job)}
        assert theirs == {"train-1": "COMPLETED", "train-2": "COMPLETED", "urgent": "COMPLETED"}
        assert "SlurmAllocationLost" in reasons
        [began] = [job.start_time for job in known if job.name == "urgent"]
        on_it = [job for job in known if job.nodes == ("node-2",) and job.start_time < began]
        assert all(job.end_time <= began for job in on_it)
    assert said == [scene.says for scene in STEPS]
    assert any("waits" in text or "wait before it" in text for text in shown)
    assert DRAINED in shown[-1]


async def test_a_picture_of_nothing_has_its_heads() -> None:
    async with (
        simulated_cluster(SimCluster, nodes=nodes(), partitions=partitions()) as cluster,
        cluster.client() as client,
    ):

        async def placeholders() -> Sequence[Mapping[str, Any]]:
            return ()

        text = render_table(DemoEnvironment(cluster.kube, cluster.slurm.controller, client, placeholders), (), 40)
    assert text.startswith("POD")
    assert max(map(len, text.splitlines())) <= 40
