"""Each test of this folder runs against the fake API server and, where the lab can be built, a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from itertools import count

import pytest

from lab.kube import Kubernetes
from tests.builders.kube_sites import NODE, Site, lab_site, sim_site

OpenSite = Callable[[], AbstractAsyncContextManager[Site]]

NAMESPACES = count(1)


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """kube-apiserver, etcd and kwok; no controllers, which would act on what the tests make."""
    with Kubernetes(controllers=False, workdir=tmp_path_factory.mktemp("kubernetes")) as cluster:
        cluster.add_node(NODE)
        cluster.wait_nodes_ready()
        yield cluster


@pytest.fixture(
    params=[
        pytest.param("sim", marks=pytest.mark.looptime),
        pytest.param("lab", marks=pytest.mark.lab),
    ]
)
def open_site(request: pytest.FixtureRequest) -> OpenSite:
    """`async with open_site() as site`."""
    if request.param == "sim":
        return sim_site
    kubernetes: Kubernetes = request.getfixturevalue("kubernetes")
    return lambda: lab_site(kubernetes, f"contract-{next(NAMESPACES)}")
