"""Everything is handed back on the real parts, with no more rights than the extender has."""

from __future__ import annotations

import pytest

from extender.domain.wellknown import GATE
from lab.site import PodRef
from tests.builders.stage import Stage

GATED = [{"name": GATE}]


def gates(stage: Stage, pod: PodRef) -> list[str]:
    found = stage.site.read(pod)
    assert found is not None
    return [gate["name"] for gate in found["spec"].get("schedulingGates") or ()]


@pytest.mark.modes("batch", slow=("24.11",))
def test_what_waits_is_let_go_what_runs_goes_on_and_a_new_installation_takes_it_up(stage: Stage) -> None:
    site, tiny = stage.site, stage.family.tiny
    runs = stage.pod("runs", partition=tiny, cpus=4)
    site.bound(runs)
    job = stage.job(runs)
    gated = stage.pod("gated", partition=tiny, cpus=4, schedulingGates=GATED)
    waits = stage.pod("waits", partition=tiny, cpus=4)
    for pod in (gated, waits):
        stage.job(pod)
    site.stop_extender()
    try:
        code, said = site.uninstall("--dry-run")
        assert (code, len(stage.jobs())) == (0, 3), said
        assert gates(stage, gated) == [GATE]

        code, said = site.uninstall()
        assert code == 0, said
        for pod in (gated, waits):
            stage.job_over(pod)
        assert gates(stage, gated) == []
        assert [one.job_id for one in stage.jobs(runs)] == [job.job_id]
        assert f"kept: job {job.job_id}" in said
        assert stage.drained() == []
        assert "0 things handed back, 1 kept, 0 left" in site.uninstall()[1]
    finally:
        site.start_extender()
    assert stage.job(waits).state == "PENDING"
    assert stage.job(runs).job_id == job.job_id
    site.delete(runs)
    site.wait_for(lambda: site.node_of(waits) or site.node_of(gated), "one that waited has the node", timeout_s=60)
