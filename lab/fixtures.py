"""pytest fixtures over the lab; a conftest.py imports those it wants: ``from lab.fixtures import slurm_24_11``.

Scope is the session: tests that share a cluster name their jobs and Pods for themselves and clean up after themselves.
A test that stops daemons, drains nodes or needs its own settings starts a cluster of its own; Slurm is up in well under
a second, Kubernetes in four.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.build_slurm import RELEASES
from lab.kube import Kubernetes
from lab.slurm import Slurm, SlurmNode

__all__ = ["kubernetes", "slurm", "slurm_24_11", "slurm_26_05", "slurm_external", "slurm_mixed"]


def some_nodes(count: int = 3, *, prefix: str = "node") -> list[SlurmNode]:
    """Return ``count`` nodes of 64 CPUs, 500 GB and 8 GPUs of type h100, named ``<prefix>-1`` and so on."""
    return [SlurmNode(f"{prefix}-{index}", gpus=8, gpu_type="h100") for index in range(1, count + 1)]


@pytest.fixture(scope="session", params=list(RELEASES))
def slurm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Start a cluster of three slurmd nodes, once for each release of Slurm."""
    with Slurm(release=request.param, nodes=some_nodes(), workdir=tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm_24_11(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Start Slurm 24.11 with three slurmd nodes."""
    with Slurm(release="24.11", nodes=some_nodes(), workdir=tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm_26_05(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Start Slurm 26.05 with three slurmd nodes."""
    with Slurm(release="26.05", nodes=some_nodes(), workdir=tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm_external(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Start Slurm 26.05 with three external nodes and no slurmd at all."""
    workdir = tmp_path_factory.mktemp("slurm")
    with Slurm(release="26.05", external_nodes=some_nodes(prefix="external"), workdir=workdir) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm_mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Start Slurm 26.05 with two slurmd nodes and two external ones."""
    workdir: Path = tmp_path_factory.mktemp("slurm")
    external = some_nodes(2, prefix="external")
    with Slurm(release="26.05", nodes=some_nodes(2), external_nodes=external, workdir=workdir) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """Start Kubernetes with three Nodes like those of :func:`some_nodes`, all Ready; no kube-scheduler runs."""
    with Kubernetes(workdir=tmp_path_factory.mktemp("kubernetes")) as cluster:
        for node in some_nodes():
            cluster.add_node(node.name, cpus=node.cpus, memory=f"{node.memory_mb}Mi", gpus=node.gpus)
        cluster.wait_nodes_ready()
        yield cluster
