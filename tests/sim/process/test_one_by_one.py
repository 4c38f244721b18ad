"""The Pods of a parallel Job are placed one by one, and its author is warned once."""

from __future__ import annotations

import pytest

from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}


async def test_the_author_of_a_parallel_job_is_warned_once_and_its_pods_are_placed(site: Site) -> None:
    async with site.running():
        for number in range(3):
            site.kube.add_pod(f"train-{number}", owner=JOB)
        for number in range(3):
            await site.bound(f"train-{number}")
        assert [site.events(f"train-{number}").count("PodsPlacedOneByOne") for number in range(3)] == [0, 1, 0]
