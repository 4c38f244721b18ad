"""Choose the mode of a placeholder job, and say whether a job is safe in a mode on given nodes.

The mode is fixed before Slurm chooses a node. A batch script holds its own node until the Pod is gone; a job without a
script leaves that to the fence script of the site. Without either, Slurm starts the next job while processes of the Pod
still run.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from extender.domain.cluster import SlurmSnapshot
from extender.domain.jobs.job import JobRequest, Mode
from extender.domain.nodes.fence_evidence import FencedNodes
from extender.domain.printable import shortened

_NAMED = 10
"""Nodes that a message names; the number of the others stands behind them."""


@dataclass(frozen=True, slots=True)
class JobSafety:
    """The result of `job_safety`: a job is safe if no other job can start on its nodes before its Pods are gone."""

    unfenced: tuple[str, ...] = ()
    """Nodes that nothing holds, sorted; empty: the job is safe."""

    @property
    def safe(self) -> bool:
        """Return whether each node is held."""
        return not self.unfenced

    @property
    def text(self) -> str:
        """Return the message to the administrator; "" for a safe job."""
        return "" if self.safe else f"GangNeedsFence: install the fence script on {few(self.unfenced)}"


def job_safety(
    mode: Mode, size: int, nodes: Collection[str], external: Collection[str], fenced: FencedNodes
) -> JobSafety:
    """Return whether a job of `size` nodes is safe in this mode, whichever of `nodes` Slurm gives it.

    A job of several nodes frees each node by itself, and its batch script runs on the first one alone. So more than one
    node needs the fence script on each, in every mode. `external`: nodes without slurmd.
    """
    if mode is Mode.BATCH and size <= 1:
        return JobSafety()
    return JobSafety(tuple(sorted(fenced.unfenced(nodes, external))))


def chosen_mode(
    request: JobRequest,
    usable: Collection[str],
    external: Collection[str],
    fenced: FencedNodes,
    *,
    at_once: bool,
) -> tuple[Mode, frozenset[str]]:
    """Return the mode of a job in mode `auto`, and nodes to exclude besides.

    `usable`: the nodes that the job may get. `at_once`: it may be asked as an immediate allocation. Where a part of
    these nodes has a fence, the others are excluded: Slurm grants the allocation now or refuses it, and after a refusal
    the job is queued in mode `batch`, which excludes none of them.
    """
    if usable and len(external) == len(usable):
        return Mode.EXTERNAL, frozenset()
    if not at_once:
        return Mode.BATCH, frozenset()
    with_slurmd = frozenset(usable) - frozenset(external)
    size = request.fewest_nodes
    unfenced = frozenset(job_safety(Mode.ALLOCATION, request.members, with_slurmd, external, fenced).unfenced)
    if not with_slurmd or (unfenced and (request.required_nodes or len(with_slurmd) - len(unfenced) < size)):
        return Mode.BATCH, frozenset()
    return Mode.ALLOCATION, unfenced


def no_safe_mode(slurm: SlurmSnapshot, fenced: FencedNodes) -> tuple[str, ...]:
    """Return a sentence for nodes on which no mode is safe, as far as calls of the fence script show."""
    external = {name for name, node in slurm.nodes.items() if node.external}
    unfenced = sorted(fenced.unfenced(external, external))
    if not unfenced:
        return ()
    return (
        f"nodes without slurmd, without a working fence: {few(unfenced)}: the next job may start there while a Pod "
        "still ends. Install the fence script as PrologSlurmctld and EpilogSlurmctld",
    )


def few(nodes: Collection[str]) -> str:
    """Return the first of these names, and how many there are besides."""
    return shortened(sorted(nodes), _NAMED)
