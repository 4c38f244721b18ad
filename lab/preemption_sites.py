"""A topology on which many Pods end at once, each on a node of its own, with work queued for that very node."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.slurm_conf import HOME, Partition, SlurmNode
from lab.topology import KubeNode, Topology

NODES_OF_A_KIND = 14
NODES_TO_CHOOSE = 4
CPUS = 16
GRACE_TIME_S = 40
SLURMD_TIMEOUT_S = 20
FENCE = "fence.sh"
NOTES = f"{HOME}/notes"
SITE_KEY = "site.key"
PLACES = ("Epilog", "PrologSlurmctld", "EpilogSlurmctld")
"""Where slurm.conf can name the fence script."""


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """Define four partitions over nodes of one kind: either all nodes have a slurmd, or all are external.

    Jobs of ``preempting`` preempt those of ``preempted_at_once``, and after ``GRACE_TIME_S`` those of
    ``preempted_with_grace``. No job preempts those of ``never_preempted``. With ``preemption_choice`` the set has
    ``NODES_TO_CHOOSE`` nodes and other names, for jobs that may preempt on any node.
    """

    prefix: str
    preemption_choice: bool = False
    size: int = NODES_OF_A_KIND

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes, in Slurm and in Kubernetes."""
        count, word = (NODES_TO_CHOOSE, "choice") if self.preemption_choice else (self.size, "arena")
        return tuple(f"{self.prefix}{word}-{index}" for index in range(1, count + 1))

    @property
    def preempted_at_once(self) -> str:
        """Return the partition whose jobs are preempted without GraceTime."""
        return self._named("preempted-at-once")

    @property
    def preempted_with_grace(self) -> str:
        """Return the partition whose jobs are preempted after a warning and GraceTime."""
        return self._named("preempted-with-grace")

    @property
    def never_preempted(self) -> str:
        """Return the partition whose jobs are never preempted."""
        return self._named("never-preempted")

    @property
    def preempting(self) -> str:
        """Return the partition of the higher tier, whose jobs preempt others."""
        return self._named("preempting")

    def partitions(self) -> tuple[Partition, ...]:
        """Return the four partitions for slurm.conf."""
        nodes = ",".join(self.nodes)
        return (
            Partition(self.preempted_at_once, nodes=nodes, preempt_mode="cancel"),
            Partition(self.preempted_with_grace, nodes=nodes, preempt_mode="cancel", grace_time_s=GRACE_TIME_S),
            Partition(self.never_preempted, nodes=nodes),
            Partition(self.preempting, nodes=nodes, priority_tier=10),
        )

    def slurm_nodes(self) -> tuple[SlurmNode, ...]:
        """Return the nodes for slurm.conf."""
        return tuple(SlurmNode(name, cpus=CPUS, memory_mb=64_000) for name in self.nodes)

    def _named(self, word: str) -> str:
        return f"{self.prefix}{'choice-' if self.preemption_choice else ''}{word}"


WITH_SLURMD, EXTERNAL = PartitionSet(""), PartitionSet("ext-")
CHOICE_WITH_SLURMD = PartitionSet("", preemption_choice=True)
CHOICE_EXTERNAL = PartitionSet("ext-", preemption_choice=True)


def preemption_topology(release: str, places: Sequence[str] = PLACES, *, size: int = 0) -> Topology:
    """Return a topology with the fence script named at ``places`` of slurm.conf.

    With ``size`` there are so few nodes of either kind, and none to choose among: each may be a machine of its own.
    """
    has_external = tuple(int(part) for part in release.split(".")) >= (25, 5)
    own = (PartitionSet("", size=size),) if size else (WITH_SLURMD, CHOICE_WITH_SLURMD)
    without_slurmd = (PartitionSet("ext-", size=size),) if size else (EXTERNAL, CHOICE_EXTERNAL)
    external = without_slurmd if has_external else ()
    nodes = tuple(node for one in own for node in one.slurm_nodes())
    without = tuple(node for one in external for node in one.slurm_nodes())
    return Topology(
        nodes=nodes,
        external_nodes=without,
        partitions=tuple(partition for one in (*own, *external) for partition in one.partitions()),
        kube_nodes=tuple(KubeNode(node.name, node) for node in (*nodes, *without)),
        slurm_config={
            "KillWait": "10",
            "MinJobAge": "7200",
            "SlurmdTimeout": str(SLURMD_TIMEOUT_S),
            "PreemptParameters": "send_user_signal",
            # Each change of a job's state, to the millisecond: the start of a job without a script is in nothing else.
            "DebugFlags": "TraceJobs",
            "SlurmctldDebug": "debug",
            **dict.fromkeys(places, f"{HOME}/etc/{FENCE}"),
        },
        # Its text is known when the extender listens; slurmctld does not start without the file.
        slurm_files={FENCE: "#!/bin/sh\nexit 0\n"},
    )
