"""Each test of this folder runs against the simulator's kubelet and, where the lab can be built, a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from itertools import count

import pytest

from lab.kubelet_site import KubeletSite
from lab.node import KubeletOptions
from lab.topology import small
from tests.builders.kube_sites import NODE
from tests.builders.kubelet_beds import KubeletBed, lab_bed, sim_bed

OpenBed = Callable[[], AbstractAsyncContextManager[KubeletBed]]

RELEASE = "26.05"
MAX_PODS = 6

NAMESPACES = count(1)


@pytest.fixture(scope="module")
def real_kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletSite]:
    """One real node that takes few Pods."""
    options = KubeletOptions(config={"maxPods": MAX_PODS})
    workdir = tmp_path_factory.mktemp("kubelet")
    with KubeletSite(RELEASE, topology=small(RELEASE), real=[NODE], kubelets=options, workdir=workdir) as found:
        yield found


@pytest.fixture(
    params=[
        pytest.param("sim", marks=pytest.mark.looptime),
        pytest.param("lab", marks=[pytest.mark.lab, pytest.mark.kubelet]),
    ]
)
def open_bed(request: pytest.FixtureRequest) -> OpenBed:
    """`async with open_bed() as bed`."""
    if request.param == "sim":
        return sim_bed
    lab: KubeletSite = request.getfixturevalue("real_kubelet")
    return lambda: lab_bed(lab, f"kubelet-{next(NAMESPACES)}")
