"""A cluster with slurmdbd: its limits hold, and its daemons are the lab's like the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.build_slurm import RELEASES
from lab.clock import wait_until
from lab.errors import LabError
from lab.slurm import Slurm, SlurmNode
from lab.slurmdbd import slurmdbd_conf

JOB = {
    "name": "alices",
    "cpus_per_task": 1,
    "memory_per_node": {"set": True, "number": 100},
    "environment": ["PATH=/usr/bin:/bin"],
    "current_working_directory": "/tmp",
    "script": "#!/bin/sh\nsleep 1000\n",
}


def submit(slurm: Slurm) -> tuple[int, int]:
    """Submit a job as alice; returns the id, 0 if it was refused, and the error number."""
    _, answer = slurm.rest("POST", "job/submit", {"job": JOB}, user="alice")
    return answer.get("job_id") or 0, next((error["error_number"] for error in answer["errors"]), 0)


@pytest.mark.lab
@pytest.mark.parametrize("release", RELEASES)
def test_no_user_runs_without_an_association_and_accounts_outlive_slurmdbd(release: str, tmp_path: Path) -> None:
    with Slurm(release=release, nodes=[SlurmNode("node-1")], accounting=True, workdir=tmp_path) as slurm:
        assert submit(slurm) == (0, 2045)
        slurm.sacctmgr("add", "account", "physics")
        slurm.sacctmgr("add", "user", "alice", "account=physics")
        job_id, error = submit(slurm)
        assert (job_id > 0, error) == (True, 0)
        wait_until(
            lambda: str(job_id) in slurm.run("sacct", "-n", "-a", "-X", "-P", "-o", "JobID"),
            "the job is in the accounts",
            timeout_s=60,
            detail=lambda: slurm.run("sacct", "-a"),
        )
        for name in ("slurmdbd", "mariadbd"):
            slurm.daemon(name).kill()
        for name in ("mariadbd", "slurmdbd"):
            slurm.daemon(name).start()
        assert "lab|physics|alice|" in slurm.sacctmgr("show", "associations")


@pytest.mark.lab
def test_a_cluster_without_accounts_has_no_slurmdbd(tmp_path: Path) -> None:
    with Slurm(release="24.11", nodes=[SlurmNode("node-1")], workdir=tmp_path) as slurm:
        with pytest.raises(LabError, match="no daemon 'slurmdbd'"):
            slurm.daemon("slurmdbd")
        assert submit(slurm)[0] > 0


def test_slurmdbd_listens_at_the_configured_address() -> None:
    assert "\nDbdPort=20009\n" in slurmdbd_conf(20009)
