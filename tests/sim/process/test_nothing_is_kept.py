"""What came and went leaves nothing behind in the process: neither Pods nor Nodes nor jobs, whatever their names."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from extender.controllers import deleted_pods, scheduling
from extender.controllers.nodes import removals
from extender.domain.nodes import fence_evidence
from extender.domain.placing import fit
from extender.domain.wellknown import GATE
from extender.engine import planning
from extender.kube import announce, order
from simulator.slurm.records import SimNode
from tests.builders.containers import containers
from tests.builders.kept import entries
from tests.builders.process_site import FOREIGN_PODS, Site

pytestmark = pytest.mark.looptime

EVERYTHING = f"""
nodes:
  nativeJobTaint: {{effect: NoSchedule}}
  unavailableTaint: {{effect: NoSchedule}}
  drain: {{notReadyAfter: 5s}}
{FOREIGN_PODS}"""
WAVES = 10
PODS = 20
REMEMBERED = 100.0
"""Seconds after which nothing but the following is remembered of a wave."""

READINGS = 64 + 3 * PODS
AT_MOST = {
    "extender.controllers.deleted_pods.DeletedPods._pods": deleted_pods.REMEMBERED,
    "extender.controllers.nodes.removals.RemovalController._proven": removals.REMEMBERED,
    "extender.domain.nodes.fence_evidence.FenceLedger._awaited": fence_evidence.MOST_AWAITED,
    "extender.domain.placing.fit._SIZES": fit._MOST_SIZES,
    "extender.domain.placing.fit._NODE_SIZES": 2 * fit._MOST_SIZES,
    "extender.controllers.scheduling.CandidateLists._known": scheduling.LISTS_KEPT * 10,
    "extender.engine.planning.Planner._known": planning.ANSWERS_KEPT * 10,
    "extender.engine.submissions.PartitionBackpressure._refused_at": 2,
    "extender.engine.job_read_versions.JobReadVersions._doubted": READINGS,
    "extender.engine.job_read_versions.JobReadVersions._notified": READINGS,
    "extender.engine.job_read_versions.JobReadVersions._states": 2 * READINGS,
    "extender.kube.announce.EventWriter._series": announce.REMEMBERED,
    "extender.runtime.work_queue.WorkQueue._working": 8,  # polls that are under way at that instant
    "extender.kube.order.VersionOrder._notified": 5 * order.REMEMBERED,
}
"""Caches of the last so many things, whatever came and went; what is counted in them are entries of entries."""


def test_every_limit_is_of_a_container_that_exists() -> None:
    """An entry with an old name allows growth to the next container that gets this name."""
    assert sorted(AT_MOST.keys() - containers(Path(__file__).parents[3]).keys()) == []


async def wave(site: Site, number: int) -> None:
    """Pods, a Node and jobs of names of their own come, run and go."""
    node = f"node-{number}"
    site.slurm.controller.nodes[node] = SimNode(node, cpus=8, memory_mb=64_000)
    site.kube.add_node(node)
    pods = [f"pod-{number}-{one}" for one in range(PODS)]
    for one, pod in enumerate(pods):
        site.kube.add_pod(pod, cpu="1", gates=(GATE,) if one % 2 else ())
    await site.until(lambda: all(map(site.node_of, pods)), "Pods on nodes")
    foreign_pod = f"foreign-{number}"
    site.kube.add_pod(foreign_pod, scheduler="another", node=node, cpu="1")
    jobs = [await site.submit_as_another_user(number * 10 + one) for one in range(3)]
    await asyncio.sleep(5)
    for job in jobs:
        site.slurm.controller.cancel(job)
    for pod in [*pods, foreign_pod]:
        site.kube.delete_pod(pod, grace_s=1)
    for pod in [*pods, foreign_pod]:
        await site.gone(pod)
    site.report_ready(node, False)
    await asyncio.sleep(10)
    site.delete_node(node)
    del site.slurm.controller.nodes[node]


async def test_pods_nodes_and_jobs_that_came_and_went_leave_nothing_behind(site: Site) -> None:
    names = containers(Path(__file__).parents[3])

    async def kept() -> Counter[str]:
        site.slurm.controller.forget(*(job.job_id for job in site.jobs() if job.ended))
        await asyncio.sleep(REMEMBERED)
        return entries(site.extender, names)

    async with site.running(changed=EVERYTHING):
        await wave(site, 0)
        before = await kept()
        for number in range(1, WAVES + 1):
            await wave(site, number)
        after = await kept()
    assert len(after) > 100
    grown = {name: (before[name], count) for name, count in after.items() if count > AT_MOST.get(name, before[name])}
    assert grown == {}
