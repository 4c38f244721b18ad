"""Outages of either side: nothing is cancelled, nothing is ended, and afterwards all goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from lab.pods import STOP_IN
from lab.site import Site
from tests.builders.stage import Stage

AWAY_S = 60


def continues(stage: Stage, breaks: Callable[[], None], mends: Callable[[], None], *, seconds: float = 4) -> None:
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


@pytest.mark.modes(slow=("24.11", "batch", "allocation", "external"))
def test_slurmrestd_is_away(stage: Stage) -> None:
    slurm = stage.site.slurm
    continues(stage, slurm.kill_slurmrestd, slurm.start_slurmrestd)


@pytest.mark.modes(slow=("26.05", "batch", "allocation", "external"))
def test_slurmctld_is_away(stage: Stage) -> None:
    slurm = stage.site.slurm

    def repair() -> None:
        slurm.start_slurmctld()
        slurm.wait_nodes_ready()

    continues(stage, slurm.stop_slurmctld, repair)


@pytest.mark.modes(slow=("24.11", "batch", "allocation", "external"))
def test_the_api_server_is_started_again(stage: Stage) -> None:
    kube = stage.site.kube
    continues(stage, kube.stop_apiserver, kube.start_apiserver, seconds=3)


@pytest.mark.modes(slow=("24.11", "batch", "allocation", "external"))
def test_the_token_has_expired(stage: Stage) -> None:
    site = stage.site
    continues(
        stage,
        lambda: site.write_token(site.slurm.token("root", lifespan_s=-60)),
        lambda: site.write_token(site.slurm.token("root")),
    )


def _restart_slurmctld(site: Site) -> None:
    site.slurm.start_slurmctld()
    site.slurm.wait_nodes_ready()


def _restart_etcd(site: Site) -> None:
    site.kube.etcd.start()
    site.kube.apiserver.wait_ready()


PARTNERS: Mapping[str, tuple[Callable[[Site], None], Callable[[Site], None]]] = {
    "slurmrestd": (lambda site: site.slurm.kill_slurmrestd(), lambda site: site.slurm.start_slurmrestd()),
    "slurmctld": (lambda site: site.slurm.stop_slurmctld(), _restart_slurmctld),
    "kube-apiserver": (lambda site: site.kube.kill_apiserver(), lambda site: site.kube.start_apiserver()),
    "etcd": (lambda site: site.kube.etcd.kill(), _restart_etcd),
}


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("partner", PARTNERS)
def test_a_minute_without_a_partner_ends_nothing_in_any_stage(stage: Stage, partner: str) -> None:
    """One Pod waits, one was granted its node and is not bound, one runs, and one is ending."""
    site, tiny = stage.site, stage.family.tiny
    breaks, mends = PARTNERS[partner]
    runs = stage.pod("runs")
    ending = stage.pod("ending", grace_s=100, annotations={STOP_IN: "80s"})
    first = stage.pod("first", partition=tiny, cpus=4)
    for pod in (runs, ending, first):
        site.bound(pod)
    granted = stage.pod("granted", partition=tiny, cpus=4)
    stage.job(granted)
    waits = stage.pod("waits", partition=tiny, cpus=4)
    before = {pod.name: stage.job(pod).job_id for pod in (runs, ending, granted, waits)}
    # As long as kube-scheduler stands still, nobody asks for the node that was granted.
    with site.scheduler.frozen():
        site.delete(first)
        stage.running(before["granted"])
        site.delete(ending)
        breaks(site)
        try:
            site.elapse(AWAY_S)
        finally:
            mends(site)
        assert {pod.name: stage.job(pod).job_id for pod in (runs, ending, granted, waits)} == before
        assert not site.node_of(granted)

    site.bound(granted, timeout_s=120)
    later = stage.pod("later")
    site.bound(later, timeout_s=90)
    site.gone(ending, timeout_s=120)
    stage.wait_job_ended(ending)
    site.delete(granted)
    site.bound(waits, timeout_s=90)
    for pod in (runs, waits, later):
        found = site.read(pod)
        assert found is not None
        assert "deletionTimestamp" not in found["metadata"]
    assert {name: stage.made(pod) for name, pod in (("runs", runs), ("granted", granted), ("waits", waits))} == {
        name: [before[name]] for name in ("runs", "granted", "waits")
    }
    # Whose end nobody watched may still run for its grace.
    site.wait_for(lambda: not stage.drained(), "no node is held any more", timeout_s=240)
