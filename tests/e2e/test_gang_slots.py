"""Slots of a running gang on the real parts: a finished member's node is Slurm's again, a successor gets its slot."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from extender.domain.wellknown import GANG_RANK
from lab.clock import now
from lab.pods import RUN_FOR
from lab.topology import slurm_name
from slurmclient.hostlist import expand
from tests.builders.stage import Stage
from tests.builders.staged_gangs import all_bound, gang

SIZE = 4
IDLE_WITHIN_S = 1.0
ROUNDS = 3
MESSAGE_TIMEOUT_S = 12.0
"""Slurm's `MessageTimeout` of 10 s, and a moment more."""

TABLE = "table: Node of a finished gang member: from the Pod's terminal phase to idle in Slurm"
STEPS = {"seen": "PodGone(", "requested": "NodesVacated(", "answered": "ShrinkAnswered("}
"""The moments of the extender between the end of a member and its idle node, by the event of its history."""


def idle_nodes(stage: Stage) -> set[str]:
    """The nodes on which Slurm may start the next job: neither allocated nor completing, and not drained.

    A request for one node alone does not make slurmctld count the allocated CPUs of nodes again, and one for all may
    (`_slurm_rpc_dump_node_single`, `_slurm_rpc_dump_nodes`).
    """
    status, answer = stage.site.slurm.rest("GET", "nodes")
    found = answer["nodes"] if status == 200 else ()
    return {one["name"] for one in found if set(one["state"]) <= {"IDLE", "EXTERNAL"}}


def until_idle(stage: Stage, name: str) -> dict[str, float]:
    """Seconds from the terminal phase of the last member of a gang until its node is idle; the others go on.

    By step, and in all. The first node of a batch script stays in its job (`docs/gangs.md`): the member there is not
    the one that ends.
    """
    site = stage.site
    stay = gang(stage, name, SIZE, ranks=range(SIZE - 1))
    (leaves,) = gang(stage, name, SIZE, ranks=[SIZE - 1], annotations={RUN_FOR: "2s"})
    nodes = [slurm_name(node) for node in all_bound(stage, [*stay, leaves])]
    (job,) = [one for one in stage.jobs() if site.expand(one.node) == set(nodes)]
    site.wait_for(lambda: stage.phase(leaves) == "Succeeded", "a member has succeeded", every_s=0.01)
    times = {"ended": now()}
    site.wait_for(lambda: nodes[-1] in idle_nodes(stage), "its node is idle in Slurm", every_s=0.01)
    idle = now()
    assert [site.expand(one.node) for one in stage.jobs() if one.job_id == job.job_id] == [set(nodes[:-1])]
    assert [stage.phase(pod) for pod in stay] == ["Running"] * len(stay)
    history = (site.debug(stay[0].uid) or {})["history"]
    for step, event in STEPS.items():
        (times[step],) = [chapter["at"] for chapter in history if event in chapter["line"]]
    times["idle"] = idle
    for pod in stay:
        site.delete(pod)
    site.wait_for(lambda: not stage.jobs(), "the others have left their nodes, which the next gang shares")
    return {step: at - before for (_, before), (step, at) in pairwise(times.items())} | {"all": idle - times["ended"]}


def until_idle_of_a_native_job(stage: Stage) -> float:
    """Seconds from the moment at which a native job is told to return one of two nodes until that node is idle."""
    site = stage.site
    job: dict[str, Any] = {
        "name": "native",
        "partition": stage.family.main,
        "minimum_nodes": 2,
        "maximum_nodes": 2,
        "current_working_directory": "/",
        "environment": ["PATH=/usr/bin:/bin"],
        "script": "#!/bin/sh\nexec sleep 600\n",
        "standard_output": "/dev/null",
        "standard_error": "/dev/null",
    }
    status, answer = site.slurm.rest("POST", "job/submit", {"job": job})
    assert status == 200, answer
    job_id = int(answer["job_id"])
    stage.foreign.append(job_id)
    first, second = expand(stage.running(job_id))
    status, answer = site.slurm.rest("POST", f"job/{job_id}", {"required_nodes": [first]})
    assert status == 200, answer
    _, waited = site.timed(lambda: second in idle_nodes(stage), "the node of the native job is idle")
    stage.cancel(job_id)
    return waited


# A busy machine delays Slurm as well: what counts is the time beyond that of a native job.
@pytest.mark.slow
@pytest.mark.modes("batch", "allocation")
def test_the_node_of_a_member_that_succeeded_is_idle_in_slurm_within_a_second(
    stage: Stage, measured: Callable[[str], None], record_property: Callable[[str, object], None]
) -> None:
    site = stage.site
    native = median(until_idle_of_a_native_job(stage) for _ in range(ROUNDS))
    rounds = [until_idle(stage, f"ring{number}") for number in range(ROUNDS)]
    waits = [one["all"] for one in rounds]
    figures = {"median, s": f"{median(waits):.2f}", "most, s": f"{max(waits):.2f}", "native job, s": f"{native:.2f}"}
    figures |= {f"until {step}, s": f"{median(one[step] for one in rounds):.3f}" for step in (*STEPS, "idle")}
    record_property(TABLE, {"Slurm": site.release, "mode": stage.mode, **figures})
    measured(f"{site.release} {stage.mode}: node of a finished member idle, seconds: {figures}")
    assert median(waits) <= IDLE_WITHIN_S + native
    stage.finish()


@pytest.mark.slow
@pytest.mark.modes("external")
def test_the_external_node_of_a_member_that_succeeded_stays_usable(stage: Stage) -> None:
    """slurmctld would ask the slurmd of a node that leaves a job, and hold one without for lost."""
    site = stage.site
    stay = gang(stage, "ring", SIZE, ranks=range(SIZE - 1))
    (leaves,) = gang(stage, "ring", SIZE, ranks=[SIZE - 1], annotations={RUN_FOR: "2s"})
    node = slurm_name(all_bound(stage, [*stay, leaves])[-1])
    said = site.wait_for(
        lambda: [text for pod in stay for reason, text in site.events(pod) if reason == "GangNodesKept"],
        "an Event names the node that is kept",
    )
    assert f" keeps Slurm node {node} until the job ends" in said[0]
    site.elapse(MESSAGE_TIMEOUT_S)
    for pod in stay:
        site.delete(pod)
    site.wait_for(lambda: not stage.jobs(), "the job ends with its last member")
    site.wait_for(lambda: node in idle_nodes(stage), "the node is idle in Slurm")
    stage.finish()


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "allocation", "external"))
def test_the_successor_of_a_removed_member_is_bound_to_its_slot_of_the_same_job(
    stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    site, rank = stage.site, 1
    pods = gang(stage, "ring", SIZE)
    nodes = all_bound(stage, pods)
    (job,) = stage.jobs()
    site.delete(pods[rank])
    site.gone(pods[rank])
    pods[rank : rank + 1] = gang(stage, "ring", SIZE, ranks=[rank])
    _, took = site.timed(lambda: site.node_of(pods[rank]), "the successor is bound")
    assert all_bound(stage, pods) == nodes
    assert (site.read(pods[rank]) or {})["metadata"]["annotations"][GANG_RANK] == str(rank)
    assert stage.made() == [job.job_id], "no other job was made"
    row = {"Slurm": site.release, "mode": stage.mode, "created to bound, s": f"{took:.2f}"}
    record_property("table: Successor of a gang member, bound to its slot without a new job", row)
    stage.finish()
