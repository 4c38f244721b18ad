"""GPUs, and Pods that fit nowhere, on the real parts."""

from __future__ import annotations

import re

import pytest

from extender.domain.wellknown import DEVICES, GPUS
from lab.topology import GPU_NODES
from tests.builders.stage import PARTITION, Stage


@pytest.mark.modes("batch", "allocation", slow=("24.11-allocation", "24.11-batch"))
def test_the_gpus_that_slurm_gave_stand_on_the_pod(stage: Stage) -> None:
    site = stage.site
    pods = [stage.pod("one", gpus=1), stage.pod("three", gpus=3)]
    for ref, count in zip(pods, (1, 3), strict=True):
        assert site.bound(ref) in {f"kube-{name}" for name in GPU_NODES}
        found = site.read(ref)
        assert found is not None
        annotations = found["metadata"]["annotations"]
        numbers = annotations[GPUS].split(",")
        assert annotations[DEVICES] == f"gpu:h100:{count}(IDX:{annotations[GPUS]})"
        shown = site.slurm.run("scontrol", "--details", "show", "job", str(stage.job(ref).job_id))
        (told,) = re.findall(rf"GRES=gpu:h100:{count}\(IDX:([0-9,-]+)\)", shown)
        assert _expanded(told) == numbers


@pytest.mark.modes("auto", slow=("24.11",))
def test_a_pod_that_fits_nowhere_gets_an_event_at_once_and_is_placed_where_it_fits(stage: Stage) -> None:
    site = stage.site
    pod = stage.pod("large", partition=stage.family.tiny, cpus=5)
    assert f"Closest is Node {stage.family.tiny_node} " in site.event(pod, "NoSuitableNode")
    unknown = stage.pod("unknown", gpus=1, annotations={"slurm-extender.io/gpu-type": "b200"})
    assert "available types: gpu:h100" in site.event(unknown, "NoSuitableNode")
    assert stage.made() == []  # Slurm was not asked
    site.annotate(pod, {PARTITION: stage.family.main})
    site.annotate(unknown, {"slurm-extender.io/gpu-type": "h100"})
    assert site.bound(pod)
    assert site.bound(unknown)


def _expanded(ranges: str) -> list[str]:
    found: list[str] = []
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        found += map(str, range(int(first), int(last or first) + 1))
    return found
