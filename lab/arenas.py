"""A site on which many Pods are ended at once, each on a node of its own, with work queued for that very node."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.slurm_conf import HOME, Partition, SlurmNode
from lab.topology import KubeNode, Topology

ARENAS = 14
HERD = 4
CPUS = 16
GRACE_TIME_S = 40
SLURMD_TIMEOUT_S = 20
FENCE = "fence.sh"
NOTES = f"{HOME}/notes"
SITE_KEY = "site.key"
PLACES = ("Epilog", "PrologSlurmctld", "EpilogSlurmctld")
"""Where slurm.conf can name the fence script."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Partitions of one kind of nodes, those with a slurmd or external ones.

    Jobs of ``calm`` and ``warned`` are preempted by those of ``over``, the latter after ``GRACE_TIME_S``; those of
    ``safe`` by none. The nodes of ``herd`` have the same four under other names, for preemptors that may choose.
    """

    prefix: str
    herd: bool = False
    size: int = ARENAS

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, in Slurm and in Kubernetes."""
        count, word = (HERD, "herd") if self.herd else (self.size, "arena")
        return tuple(f"{self.prefix}{word}-{index}" for index in range(1, count + 1))

    @property
    def calm(self) -> str:
        """Preempted at once."""
        return self._named("calm")

    @property
    def warned(self) -> str:
        """Preempted after a warning."""
        return self._named("warned")

    @property
    def safe(self) -> str:
        """Never preempted."""
        return self._named("safe")

    @property
    def over(self) -> str:
        """Preempts."""
        return self._named("over")

    def partitions(self) -> tuple[Partition, ...]:
        """The four."""
        nodes = ",".join(self.nodes)
        return (
            Partition(self.calm, nodes=nodes, preempt_mode="cancel"),
            Partition(self.warned, nodes=nodes, preempt_mode="cancel", grace_time_s=GRACE_TIME_S),
            Partition(self.safe, nodes=nodes),
            Partition(self.over, nodes=nodes, priority_tier=10),
        )

    def slurm_nodes(self) -> tuple[SlurmNode, ...]:
        """The nodes."""
        return tuple(SlurmNode(name, cpus=CPUS, memory_mb=64_000) for name in self.nodes)

    def _named(self, word: str) -> str:
        return f"{self.prefix}{'herd-' if self.herd else ''}{word}"


WITH_SLURMD, EXTERNAL = Grounds(""), Grounds("ext-")
HERD_WITH_SLURMD, HERD_EXTERNAL = Grounds("", herd=True), Grounds("ext-", herd=True)


def arenas(release: str, places: Sequence[str] = PLACES, *, size: int = 0) -> Topology:
    """The topology. ``places`` are those at which the fence script is installed.

    With ``size`` there are so few nodes of either kind, and no herd: each may be a machine of its own.
    """
    has_external = tuple(int(part) for part in release.split(".")) >= (25, 5)
    own = (Grounds("", size=size),) if size else (WITH_SLURMD, HERD_WITH_SLURMD)
    without_slurmd = (Grounds("ext-", size=size),) if size else (EXTERNAL, HERD_EXTERNAL)
    external = without_slurmd if has_external else ()
    nodes = tuple(node for grounds in own for node in grounds.slurm_nodes())
    without = tuple(node for grounds in external for node in grounds.slurm_nodes())
    return Topology(
        nodes=nodes,
        external_nodes=without,
        partitions=tuple(partition for grounds in (*own, *external) for partition in grounds.partitions()),
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
