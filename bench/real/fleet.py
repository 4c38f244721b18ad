"""The cluster that is measured: external nodes and a few with slurmd, Nodes of 10 kB and Pods of 5 kB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from extender.domain.wellknown import GATE
from lab.credentials import User
from lab.manifests import render, scheduler_deployment, scheduler_profile
from lab.pods import pod
from lab.process import Daemon
from lab.site import Site
from lab.slurm_conf import Partition, SlurmNode
from lab.topology import KubeNode, Topology

RELEASE = "26.05"
EXTERNAL_NODES = 64
WIDE_NODES = 512
"""External nodes of the fleet in which a gang of as many members is placed."""

NODES_WITH_SLURMD = 4
GPUS = 8
"""Of each node with slurmd."""

EXTERNAL, PLAIN, NARROW, TURNOVER = "external", "plain", "narrow", "turnover"
"""Partitions: external nodes alone, nodes with slurmd alone, external ones with room for `NARROW_ROOM` CPUs, and one
node with slurmd and room for `ROOM`. None of them can preempt anybody."""

ROOM = 100
NARROW_ROOM = 200
NARROW_NODES = ("narrow-0", "narrow-1")


@dataclass(frozen=True, slots=True)
class Contested:
    """A node whose jobs of `warned` get a GraceTime when one of `urgent` wants their CPUs."""

    node: str
    cpus: int
    warned: str
    urgent: str


READ = Contested("read-0", 110, "read", "read-urgent")
"""External: a warning is found by reading."""

SIGNALLED = Contested("signalled-0", 20, "signalled", "signalled-urgent")
"""With slurmd: a batch script hears a warning."""

GRACE_TIME_S = 60

NODE_BYTES, POD_BYTES = 10_000, 5_000
OURS, BARE, ALONE, NOBODY = "slurm", "bare", "alone", "nobody"
"""Names of schedulers: ours, the bare pipeline's, a kube-scheduler without an extender, and one that is not there."""

AUTHOR, FLOODER = "alice", "mallory"
"""Tenants, each with rights in the namespace alone that a measurement makes for it."""

MODE = "slurm-extender.io/mode"
PARTITION = "slurm-extender.io/partition"
JOB_NAME = "slurm-extender.io/job-name"
PADDING = "bench.slurm-extender.io/padding"


def fleet(external_nodes: int = EXTERNAL_NODES) -> Topology:
    """Only on the contested nodes does anybody preempt."""
    external = tuple(SlurmNode(f"ext-{number:03d}") for number in range(external_nodes))
    with_slurmd = tuple(SlurmNode(f"node-{number}", gpus=GPUS) for number in range(NODES_WITH_SLURMD))
    narrow = tuple(SlurmNode(name, cpus=NARROW_ROOM // len(NARROW_NODES)) for name in NARROW_NODES)
    turnover = SlurmNode("turnover-0", cpus=ROOM)
    read, signalled = (SlurmNode(one.node, cpus=one.cpus) for one in (READ, SIGNALLED))
    return Topology(
        nodes=(*with_slurmd, turnover, signalled),
        external_nodes=(*external, *narrow, read),
        partitions=(
            Partition(EXTERNAL, nodes=",".join(node.name for node in external), default=True),
            Partition(PLAIN, nodes=",".join(node.name for node in with_slurmd)),
            Partition(NARROW, nodes=",".join(node.name for node in narrow)),
            Partition(TURNOVER, nodes=turnover.name),
            *(part for one in (READ, SIGNALLED) for part in _contested(one)),
        ),
        kube_nodes=tuple(
            KubeNode(node.name, node) for node in (*external, *with_slurmd, *narrow, turnover, read, signalled)
        ),
        slurm_config={
            "MinJobAge": "30",
            "MaxJobCount": "100000",
            "DebugFlags": "TraceJobs",
            "SlurmctldDebug": "debug",
            "PreemptParameters": "send_user_signal",
        },
    )


def _contested(one: Contested) -> tuple[Partition, Partition]:
    return (
        Partition(one.warned, nodes=one.node, preempt_mode="cancel", grace_time_s=GRACE_TIME_S),
        Partition(one.urgent, nodes=one.node, priority_tier=10),
    )


@contextmanager
def site(external_nodes: int = EXTERNAL_NODES) -> Iterator[Site]:
    """The fleet with our extender, Nodes as large as real ones."""
    config: dict[str, dict[str, Any]] = {
        "slurm": {"defaultPartition": EXTERNAL},
        "gangs": {"unfenced": "allow"},  # nothing runs on these nodes that a fence could hold
        "observability": {"logLevel": "info"},
    }
    tenants = [User(AUTHOR), User(FLOODER)]
    with Site(RELEASE, topology=fleet(external_nodes), config=config, users=tenants) as found:
        for node in found.topology.kube_nodes:
            found.patch_node(node.name, {"metadata": {"annotations": {PADDING: "x" * NODE_BYTES}}})
        yield found


def another_scheduler(found: Site, name: str, url: str = "", gates: str = "") -> Daemon:
    """A kube-scheduler for Pods of this scheduler name: with our profile at `url`, or without an extender.

    `gates` in place of the feature gates of our manifests.
    """
    documents = render(found.kube)
    account, shipped = scheduler_deployment(documents)
    profile = yaml.safe_load(scheduler_profile(documents, url))
    for one in profile["profiles"]:
        one["schedulerName"] = name
    if not url:
        del profile["extenders"]
    return found.kube.start_scheduler(
        yaml.safe_dump(profile), user=account, feature_gates=gates or shipped, name=f"{name}-scheduler"
    )


def a_pod(
    name: str,
    namespace: str,
    scheduler: str,
    settings: Mapping[str, str],
    *,
    gated: bool,
    spec: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A Pod of 1 CPU, 5 kB large. `spec`: further fields."""
    body = pod(name, namespace, scheduler=scheduler, annotations={PADDING: "x" * POD_BYTES, **settings}, **spec or {})
    if gated:
        body["spec"]["schedulingGates"] = [{"name": GATE}]
    return body
