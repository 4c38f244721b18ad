"""The text of slurm.conf, gres.conf and cgroup.conf for one machine; pure, names as in man 5 slurm.conf."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.errors import LabError

HOME = "/lab"
"""Where a cluster's own files are, as its daemons see them."""


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node as slurm.conf declares it. ``memory_mb`` is RealMemory in MiB; ``gpus`` are fake devices."""

    name: str
    cpus: int = 64
    memory_mb: int = 512_000
    gpus: int = 0
    gpu_type: str = ""
    threads_per_core: int = 1
    features: tuple[str, ...] = ()

    @property
    def gres(self) -> str:
        """Return the value of Gres=, empty without GPUs."""
        if not self.gpus:
            return ""
        return f"gpu:{self.gpu_type}:{self.gpus}" if self.gpu_type else f"gpu:{self.gpus}"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition. ``preempt_mode`` is its PreemptMode; ``extra`` takes any other key of slurm.conf."""

    name: str
    nodes: str = "ALL"
    default: bool = False
    priority_tier: int = 1
    grace_time_s: int = 0
    preempt_mode: str = "off"
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlurmPorts:
    """TCP ports on loopback: slurmctld's, slurmrestd's, and one for each node that has a slurmd, by its name.

    ``slurmdbd`` is None where the cluster keeps no accounts.
    """

    slurmctld: int
    slurmrestd: int
    slurmd: Mapping[str, int]
    slurmdbd: int | None = None


BASE: Mapping[str, str] = {
    "ClusterName": "lab",
    "SlurmctldHost": "localhost",
    "SlurmUser": "root",
    "SlurmdUser": "root",
    "AuthType": "auth/slurm",
    "CredType": "cred/slurm",
    "AuthInfo": "use_client_ids",
    "AuthAltTypes": "auth/jwt",
    "AuthAltParameters": f"jwt_key={HOME}/etc/jwt.key",
    "StateSaveLocation": f"{HOME}/state",
    "SlurmctldPidFile": f"{HOME}/run/slurmctld.pid",
    "SlurmdPidFile": f"{HOME}/run/slurmd-%n.pid",
    "SlurmdSpoolDir": f"{HOME}/spool/%n",
    # No cgroups: the namespaces of a sandbox do not own any, and the lab measures decisions, not confinement.
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core_Memory",
    # A submitted job is looked at on the next one-second tick, not after three seconds (job_mgr.c, controller.c).
    "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,bf_interval=5,sched_interval=5",
    "SlurmctldParameters": "enable_configless",
    # Nodes of 64 CPUs on a machine of two.
    "SlurmdParameters": "config_overrides",
    "GresTypes": "gpu",
    "ReturnToService": "2",
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "CANCEL",
    # Dynamic and external nodes want the tree flat, and a bound for nodes that are added later.
    "TreeWidth": "65533",
    "MaxNodeCount": "1024",
    "KillWait": "30",
    # The daemons stay in the foreground and their standard error is the log.
    "LogTimeFormat": "iso8601_ms,format_stderr",
    "SlurmctldDebug": "info",
    "SlurmdDebug": "info",
}

ACCOUNTING: Mapping[str, str] = {
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageHost": "localhost",
    "AccountingStorageEnforce": "associations,limits,qos",
    # GPUs can be limited only where they are counted.
    "AccountingStorageTRES": "gres/gpu",
}
"""Further settings of a cluster with slurmdbd: no job runs without an association, and limits hold."""


def slurm_conf(
    nodes: Sequence[SlurmNode],
    external_nodes: Sequence[SlurmNode],
    partitions: Sequence[Partition],
    ports: SlurmPorts,
    config: Mapping[str, str],
) -> str:
    """Build slurm.conf; ``config`` wins over the lab's settings, key by key, and an empty value removes a key.

    Raises LabError where a node or partition name comes twice, or more than one partition is the default.
    """
    _check_names([node.name for node in (*nodes, *external_nodes)], "node")
    _check_names([partition.name for partition in partitions], "partition")
    defaults = [partition.name for partition in partitions if partition.default]
    if len(defaults) > 1:
        raise LabError(f"one partition can be the default, not {', '.join(defaults)}")
    settings = {**BASE, "SlurmctldPort": str(ports.slurmctld)}
    if ports.slurmdbd is not None:
        settings |= {**ACCOUNTING, "AccountingStoragePort": str(ports.slurmdbd)}
    canonical = {key.lower(): key for key in settings}
    for key, value in config.items():
        settings[canonical.get(key.lower(), key)] = value
    count = len(nodes) + len(external_nodes)
    if count > int(settings.get("MaxNodeCount") or 0):
        settings["MaxNodeCount"] = str(count)
    lines = [f"{key}={value}" for key, value in settings.items() if value]
    lines += [_node_line(node, f"NodeAddr=127.0.0.1 Port={ports.slurmd[node.name]} State=UNKNOWN") for node in nodes]
    lines += [_node_line(node, "NodeAddr=127.0.0.1 State=EXTERNAL") for node in external_nodes]
    lines += [_partition_line(partition) for partition in partitions]
    return "\n".join(lines) + "\n"


def gres_conf(nodes: Sequence[SlurmNode]) -> str:
    """Build gres.conf: the fake GPU devices of the nodes that have a slurmd to read them."""
    lines = []
    for node in nodes:
        if node.gpus:
            kind = f"Type={node.gpu_type} " if node.gpu_type else ""
            last = f"[0-{node.gpus - 1}]" if node.gpus > 1 else "0"
            lines.append(f"NodeName={node.name} Name=gpu {kind}File=/dev/nvidia{last}")
    return "\n".join(["AutoDetect=off", *lines]) + "\n"


def gpu_devices(nodes: Sequence[SlurmNode]) -> list[str]:
    """Return the names under /dev of the GPUs in :func:`gres_conf`; nodes of one machine share them."""
    return [f"nvidia{index}" for index in range(max((node.gpus for node in nodes), default=0))]


CGROUP_CONF = "CgroupPlugin=disabled\n"


def _node_line(node: SlurmNode, tail: str) -> str:
    if node.cpus < 1 or node.cpus % node.threads_per_core:
        raise LabError(f"node {node.name}: {node.cpus} CPUs cannot be cores of {node.threads_per_core} threads")
    cores = node.cpus // node.threads_per_core
    sockets = 2 if cores % 2 == 0 else 1
    parts = [
        f"NodeName={node.name}",
        "NodeHostname=localhost" if "EXTERNAL" not in tail else "",
        f"CPUs={node.cpus} Boards=1 SocketsPerBoard={sockets} CoresPerSocket={cores // sockets}",
        f"ThreadsPerCore={node.threads_per_core} RealMemory={node.memory_mb}",
        f"Gres={node.gres}" if node.gres else "",
        f"Feature={','.join(node.features)}" if node.features else "",
        tail,
    ]
    return " ".join(part for part in parts if part)


def _partition_line(partition: Partition) -> str:
    # GraceTime and PreemptMode stand on every partition: both are inherited from elsewhere when they are left out.
    settings = {
        "PartitionName": partition.name,
        "Nodes": partition.nodes,
        "Default": "YES" if partition.default else "NO",
        "State": "UP",
        "PriorityTier": str(partition.priority_tier),
        "GraceTime": str(partition.grace_time_s),
        "PreemptMode": partition.preempt_mode.upper(),
        **partition.extra,
    }
    return " ".join(f"{key}={value}" for key, value in settings.items())


def _check_names(names: Sequence[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise LabError(f"{what} {', '.join(twice)} is declared twice")
