"""Every setting of every prefix is read back from the real job, in Slurm's words.

Two cannot be seen here: slurmctld keeps no QOS without accounting, and it drops the label of a multi-category security
that no plug-in serves. `test_accounting.py` has a site that shows them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from extender.domain.jobs.job import Exclusive
from extender.domain.translation.annotation_table import BY_NAME, BY_SUNK_NAME
from lab.site import Site
from tests.builders.stage import Stage, sharing

OWN, SUNK = "slurm-extender.io/", "sunk.coreweave.com/"


@contextlib.contextmanager
def reservation(site: Site, name: str, node: str) -> Iterator[None]:
    """A reservation of a node for root and alice."""
    words = [f"ReservationName={name}", f"Nodes={node}", "Users=root,alice", "StartTime=now", "Duration=60"]
    site.slurm.run("scontrol", "create", "reservation", *words)
    try:
        yield
    finally:
        site.wait_for(lambda: not site.squeue(), "no job holds the reservation", timeout_s=60)
        site.slurm.run("scontrol", "delete", f"ReservationName={name}")


@pytest.mark.modes(slow=("allocation", "auto"))
def test_every_setting_of_the_extender_is_in_the_job(stage: Stage) -> None:
    site, main, (node, avoided, *_) = stage.site, stage.family.main, stage.family.nodes
    before = stage.submit(stage.family.tiny, cpus=1)
    said = {
        "account": "physics",
        "partition": main,
        "wckey": "key",
        "job-name": "a name of its own",
        "comment": "a comment",
        "constraints": "tested",
        "prefer": "tested",
        "reservation": "ours",
        "required-nodes": node,
        "excluded-nodes": avoided,
        "min-nodes": "1",
        "max-nodes": "1",
        "switches": "1",
        "exclusive": "user",
        "cpus-per-task": "3",
        "mem-per-node": "2Gi",
        "licenses": "matlab:2",
        "time-limit": "15",
        "begin": "now+20minutes",
        "deadline": "now+2hours",
        "dependency": f"afterany:{before}",
        "priority": "77",
        "nice": "5",
        "user-id": "2001",
        "group-id": "2001",
        "current-working-dir": "/tmp",
        "mode": stage.mode,
    }
    elsewhere = {"gres", "gpu-type"}  # contradict each other; test_accounting.py has both
    unseen = {"qos", "mcs-label", "gang", "gang-size"}  # gangs: test_gangs.py
    unseen |= {"segment", "on-node-failure"}  # tests/contract/slurm/test_jobs_of_gangs.py
    unseen |= {"gang-layout", "gang-restart"}  # test_packed_gangs.py, tests/sim/process/test_kept_allocations.py
    assert said.keys() | elsewhere | unseen == BY_NAME.keys()
    with reservation(site, "ours", node):
        pod = site.pod("all", stage.namespace, annotations={OWN + key: value for key, value in said.items()})
        found = site.wait_for(
            lambda: [job for job in site.squeue() if job.name.startswith("a name of its own-")], "the job is there"
        )
        shown, rest = site.scontrol_show_job(found[0].job_id), site.rest_job(found[0].job_id)
        site.delete(pod)
        site.gone(pod)
        stage.cancel(before)
    assert {key: shown[key] for key in EXPECTED} == EXPECTED
    assert shown["Partition"] == main
    assert sharing(shown) == "user"
    assert shown["ReqNodeList"] == node
    assert avoided in site.expand(shown["ExcNodeList"])
    assert shown["UserId"].endswith("(2001)")
    assert shown["GroupId"].endswith("(2001)")
    assert rest["prefer"] == "tested"
    assert rest["required_switches"] == 1
    assert rest["dependency"].startswith(f"afterany:{before}")
    assert rest["wckey"].strip("*") == "key"
    assert rest["eligible_time"]["number"] - rest["submit_time"]["number"] == pytest.approx(1200, abs=60)
    assert rest["deadline"]["number"] - rest["submit_time"]["number"] == pytest.approx(7200, abs=60)


EXPECTED = {
    "Account": "physics",
    "Comment": "a comment",
    "Features": "tested",
    "Reservation": "ours",
    "CPUs/Task": "3",
    "MinMemoryNode": "2G",
    "Licenses": "matlab:2",
    "TimeLimit": "00:15:00",
    "Priority": "77",
    "Nice": "5",
    "WorkDir": "/tmp",
    "NumNodes": "1-1",
}


@pytest.mark.modes(slow=("allocation", "external", "auto"))
def test_every_setting_of_sunk_is_in_the_job(stage: Stage) -> None:
    site, (node, avoided, *_) = stage.site, stage.family.nodes
    said = {
        "account": "physics",
        "partition": stage.family.main,
        "comment": "a comment",
        "constraints": "tested",
        "prefer": "tested",
        "reservation": "theirs",
        "required-nodes": node,
        "excluded-nodes": avoided,
        "exclusive": "user",
        "timeout": "15",
        "priority": "77",
        "user-id": "2001",
        "group-id": "2002",
        "current-working-dir": "/tmp",
    }
    assert said.keys() | {"qos"} == BY_SUNK_NAME.keys()
    with reservation(site, "theirs", node):
        sunk = {SUNK + key: value for key, value in said.items()}
        pod = site.pod("all", stage.namespace, annotations={OWN + "mode": stage.mode, **sunk})
        job = stage.job(pod)
        shown = site.scontrol_show_job(job.job_id)
        site.delete(pod)
        site.gone(pod)
    wanted = ("Account", "Comment", "Features", "TimeLimit", "Priority", "WorkDir")
    assert {key: shown[key] for key in wanted} == {key: EXPECTED[key] for key in wanted}
    assert shown["Reservation"] == "theirs"
    assert sharing(shown) == "user"
    assert shown["ReqNodeList"] == node
    assert avoided in site.expand(shown["ExcNodeList"])
    assert shown["UserId"].endswith("(2001)")
    assert shown["GroupId"].endswith("(2002)")


@pytest.mark.parametrize("said", list(Exclusive))
@pytest.mark.modes(slow=("allocation", "external", "auto"))
def test_who_may_share_the_node(stage: Stage, said: str) -> None:
    # Held by its begin time, so that no node has to be free of others.
    pod = stage.pod("shared", annotations={OWN + "exclusive": said, OWN + "begin": "now+1hour"})
    assert sharing(stage.site.scontrol_show_job(stage.job(pod).job_id)) == said


@pytest.mark.modes(slow=("auto",))
def test_what_an_allocation_made_at_once_can_have(stage: Stage) -> None:
    site = stage.site
    said = {
        "account": "physics",
        "comment": "a comment",
        "time-limit": "15",
        "cpus-per-task": "3",
        "mem-per-node": "2Gi",
    }
    pod = stage.pod("some", annotations={OWN + key: value for key, value in said.items()})
    site.bound(pod)
    shown = site.scontrol_show_job(stage.job(pod).job_id)
    wanted = ("Account", "Comment", "CPUs/Task", "MinMemoryNode", "TimeLimit")
    assert {key: shown[key] for key in wanted} == {key: EXPECTED[key] for key in wanted}
