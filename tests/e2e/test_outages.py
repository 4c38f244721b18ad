"""Outages of either side: nothing is cancelled, nothing is ended, and afterwards all goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders.stage import Stage


def goes_on(stage: Stage, breaks: Callable[[], None], mends: Callable[[], None], *, seconds: float = 4) -> None:
    """A Pod runs and one waits; through the outage both keep what they have; afterwards new ones are served."""
    site, tiny = stage.site, stage.family.tiny
    runs = stage.pod("runs", partition=tiny, cpus=4)
    site.bound(runs)
    waits = stage.pod("waits", partition=tiny, cpus=4)
    before = {pod.name: stage.job(pod).job_id for pod in (runs, waits)}
    breaks()
    try:
        site.elapse(seconds)
    finally:
        mends()
    site.elapse(2)
    assert {pod.name: stage.job(pod).job_id for pod in (runs, waits)} == before
    assert "deletionTimestamp" not in (site.read(runs) or {"metadata": {"deletionTimestamp": ""}})["metadata"]
    assert site.bound(stage.pod("later"), timeout_s=90)
    site.delete(runs)
    assert site.bound(waits, timeout_s=60)
    assert stage.job(waits).job_id == before["waits"]


@pytest.mark.modes(slow=("batch", "allocation", "external"))
def test_slurmrestd_is_away(stage: Stage) -> None:
    slurm = stage.site.slurm
    goes_on(stage, slurm.kill_slurmrestd, slurm.start_slurmrestd)


@pytest.mark.modes(slow=("batch", "allocation", "external"))
def test_slurmctld_is_away(stage: Stage) -> None:
    slurm = stage.site.slurm

    def mend() -> None:
        slurm.start_slurmctld()
        slurm.wait_nodes_ready()

    goes_on(stage, slurm.stop_slurmctld, mend)


@pytest.mark.modes(slow=("24.11", "batch", "allocation", "external"))
def test_the_api_server_is_started_again(stage: Stage) -> None:
    kube = stage.site.kube
    goes_on(stage, kube.stop_apiserver, kube.start_apiserver, seconds=3)


@pytest.mark.modes(slow=("24.11", "batch", "allocation", "external"))
def test_the_token_has_expired(stage: Stage) -> None:
    site = stage.site
    goes_on(
        stage,
        lambda: site.write_token(site.slurm.token("root", lifespan_s=-60)),
        lambda: site.write_token(site.slurm.token("root")),
    )
