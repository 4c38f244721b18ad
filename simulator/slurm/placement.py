"""Choose the nodes that a job can have: now, ever, or after a preemption. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from simulator.slurm.records import SimJob, SimNode, SimPartition


@dataclass(frozen=True, slots=True)
class PlacementState:
    """The state from which the choice is made."""

    nodes: Mapping[str, SimNode]
    partitions: Mapping[str, SimPartition]
    jobs: Iterable[SimJob]

    def partitions_of(self, job: SimJob) -> Sequence[SimPartition]:
        """Return the partitions that the job may run in, as listed in it."""
        return [self.partitions[name] for name in job.partition.split(",") if name in self.partitions]

    def holders(self, node: str) -> list[SimJob]:
        """Return the jobs that hold something of a node, those still completing on it among them."""
        return [job for job in self.jobs if (job.running and node in job.nodes) or node in job.completing_on]

    def nodes_of(self, partition: SimPartition) -> Sequence[SimNode]:
        """Return Nodes of a partition, in order."""
        if partition.node_set:
            nodes = self.nodes.values()
            return [node for node in nodes if partition.node_set in (node.features if node.sets is None else node.sets)]
        if partition.nodes is None:
            return list(self.nodes.values())
        return [self.nodes[name] for name in partition.nodes if name in self.nodes]


def wanted_nodes(cluster: PlacementState, job: SimJob, partition: SimPartition) -> list[SimNode]:
    """Return the nodes that the job allows and that are large enough, whatever happens on them now."""
    return [
        node
        for node in cluster.nodes_of(partition)
        if node.name not in job.excluded
        and (not job.required or node.name in job.required or job.node_count > len(job.required))
        # Ordinary jobs need a slurmd; external ones may use any node.
        and (job.external or not node.external)
        and _has_features(node, job.features)
        and _large_enough(node, job)
    ]


def requests_too_many_cpus(cluster: PlacementState, job: SimJob) -> bool:
    """Return whether no node of the job's partitions has so many CPUs."""
    nodes = [node for partition in cluster.partitions_of(job) for node in cluster.nodes_of(partition)]
    return all(job.cpus_per_node > node.cpus for node in nodes)


def all_unavailable(cluster: PlacementState, job: SimJob) -> bool:
    """Return whether every node that the job could use is drained, FAIL, under maintenance or down."""
    usable = [node for partition in cluster.partitions_of(job) for node in wanted_nodes(cluster, job, partition)]
    return all(node.unavailable for node in usable)


def can_ever_run(cluster: PlacementState, job: SimJob) -> bool:
    """Return whether enough such nodes exist."""
    if job.packed:
        parts = cluster.partitions_of(job)
        rooms = (sum(_tasks(job, node, ()) for node in wanted_nodes(cluster, job, part)) for part in parts)
        return any(room >= job.tasks for room in rooms)
    return any(len(wanted_nodes(cluster, job, part)) >= job.node_count for part in cluster.partitions_of(job))


def goes_before(cluster: PlacementState, waiting: SimJob, job: SimJob) -> bool:
    """Return whether a pending job goes before an allocation: of its partition, or of another that shares nodes with it
    (`_top_priority` in `job_mgr.c`). Where a job comes to several partitions, the first counts.
    """
    partitions, others = cluster.partitions_of(job), cluster.partitions_of(waiting)
    if not partitions or not others:
        return False
    own, other = partitions[0], others[0]
    if own.name == other.name:
        return waiting.priority >= job.priority
    shared = {node.name for node in cluster.nodes_of(own)} & {node.name for node in cluster.nodes_of(other)}
    return bool(shared) and (other.priority_tier, waiting.priority) >= (own.priority_tier, job.priority)


def nodes_available_now(
    cluster: PlacementState, job: SimJob, closed: Set[str] = frozenset()
) -> tuple[SimPartition, tuple[str, ...]] | None:
    """Return partition and nodes that the job gets at once, the first that fit but those closed; `None`: none."""
    for partition in cluster.partitions_of(job):
        if not partition.up:
            continue
        wanted = [n for n in wanted_nodes(cluster, job, partition) if n.name not in closed]
        fitting = [n.name for n in wanted if fits(cluster, job, n, ())]
        chosen = [name for name in fitting if name in job.required]
        chosen += [name for name in fitting if name not in job.required]
        if job.packed:
            if given := _fewest(cluster, job, chosen):
                return partition, given
            continue
        if len(chosen) >= job.node_count and set(job.required) <= set(chosen[: job.node_count]):
            return partition, tuple(chosen[: job.node_count])
    return None


def victims(cluster: PlacementState, job: SimJob) -> list[SimJob]:
    """Return the fewest running jobs of lower tiers whose end lets the job start; empty: preemption does not help."""
    best: list[SimJob] = []
    for partition in cluster.partitions_of(job):
        if not partition.up or job.node_count != 1 or job.packed:
            continue
        for node in wanted_nodes(cluster, job, partition):
            doomed = _victims_on(cluster, job, partition, node)
            if doomed and (not best or len(doomed) < len(best)):
                best = doomed
    return best


def fits(cluster: PlacementState, job: SimJob, node: SimNode, without: Sequence[SimJob]) -> bool:
    """Return whether the node takes jobs, and has enough free, `without` counted as gone."""
    if node.unavailable or node.silent:
        return False
    everybody = cluster.holders(node.name)
    # While an Epilog or a dying process is on it, a node takes no new job at all.
    if any(node.name in holder.completing_on for holder in everybody):
        return False
    left = [holder for holder in everybody if holder not in without]
    if left and (job.exclusive or any(holder.exclusive for holder in left)):
        return False
    if any("user" in {*job.shared, *holder.shared} and holder.user_id != job.user_id for holder in left):
        return False
    return _tasks(job, node, left) > 0


def _tasks(job: SimJob, node: SimNode, holders: Sequence[SimJob]) -> int:
    """Return how many times the size of a job fits beside these jobs."""
    cpus = node.cpus - sum(holder.cpus_per_node * holder.times(node.name) for holder in holders)
    memory = node.memory_mb - sum(_memory(holder, node) * holder.times(node.name) for holder in holders)
    rooms = [cpus // job.cpus_per_node, memory // max(1, _memory(job, node))]
    return min([*rooms, *(_gres_free(node, holders, name) // count for name, count in job.gres.items() if count)])


def _fewest(cluster: PlacementState, job: SimJob, names: Sequence[str]) -> tuple[str, ...]:
    """Return the fewest nodes that hold all tasks of a packed job, in the order given; none where they are too few."""
    rooms = {name: _tasks(job, cluster.nodes[name], cluster.holders(name)) for name in names}
    chosen, left = set[str](), job.tasks
    for name in sorted(names, key=lambda one: (one not in job.required, -rooms[one])):
        if left > 0 or name in job.required or len(chosen) < job.node_count:
            chosen.add(name)
            left -= rooms[name]
    enough = left <= 0 and len(chosen) >= job.node_count and set(job.required) <= chosen
    return tuple(name for name in names if name in chosen) if enough else ()


def tasks_by_node(cluster: PlacementState, job: SimJob, names: Sequence[str]) -> Mapping[str, int]:
    """Return the tasks of a packed job on each of its nodes, which are filled in their order; empty for other jobs."""
    found: dict[str, int] = {}
    for index, name in enumerate(names if job.packed else ()):
        left = job.tasks - sum(found.values()) - (len(names) - index - 1)
        found[name] = max(1, min(_tasks(job, cluster.nodes[name], cluster.holders(name)), left))
    return found


def free_devices(cluster: PlacementState, job: SimJob, node: SimNode) -> dict[str, tuple[int, ...]]:
    """Return the numbers of the devices that a job gets on a node: the lowest free ones, one type after another."""
    taken: dict[str, set[int]] = {}
    for holder in cluster.holders(node.name):
        for name, numbers in holder.devices.get(node.name, {}).items():
            taken.setdefault(name.partition(":")[0], set()).update(numbers)
    given: dict[str, tuple[int, ...]] = {}
    for wanted, count in job.gres.items():
        kind, first = wanted.partition(":")[0], 0
        free: list[int] = []
        for name, there in node.gres.items():
            if name.partition(":")[0] != kind:
                continue
            if wanted in {name, kind}:
                free += [n for n in range(first, first + there) if n not in taken.get(kind, set())]
            first += there
        given[wanted] = tuple(free[: count * job.times(node.name)])
        taken.setdefault(kind, set()).update(given[wanted])
    return given


def free_cores(cluster: PlacementState, job: SimJob, node: SimNode) -> tuple[int, ...]:
    """Return the numbers of the cores that a job gets on a node: the lowest free ones; none where they do not show."""
    if not node.threads_per_core:
        return ()
    taken = {core for holder in cluster.holders(node.name) for core in holder.cores.get(node.name, ())}
    wanted = -(-job.cpus_per_node * job.times(node.name) // node.threads_per_core)
    free = [core for core in range(node.cpus // node.threads_per_core) if core not in taken]
    return tuple(free[:wanted])


def _victims_on(cluster: PlacementState, job: SimJob, partition: SimPartition, node: SimNode) -> list[SimJob]:
    lower = [
        holder
        for holder in cluster.holders(node.name)
        if holder.running
        and (other := cluster.partitions.get(holder.partition)) is not None
        and other.priority_tier < partition.priority_tier
        and other.preempt_mode not in {"", "OFF"}
    ]
    doomed: list[SimJob] = []
    for holder in sorted(lower, key=lambda one: -one.start_time):  # the youngest first
        doomed.append(holder)
        if fits(cluster, job, node, doomed):
            return doomed
    return []


def _large_enough(node: SimNode, job: SimJob) -> bool:
    return (
        job.cpus_per_node <= node.cpus
        and _memory(job, node) <= node.memory_mb
        and all(_gres_free(node, (), name) >= count for name, count in job.gres.items())
    )


def _memory(job: SimJob, node: SimNode) -> int:
    return job.memory_mb or node.memory_mb  # 0, as in `sbatch --mem=0`, is all of it


def _gres_free(node: SimNode, holders: Sequence[SimJob], wanted: str) -> int:
    """Free devices for `gpu` (of any type) or `gpu:h100`. An untyped request is counted against every type."""
    base = wanted.partition(":")[0]
    of_name = {name: count for name, count in node.gres.items() if name.partition(":")[0] == base}
    used = [
        (name, n * holder.times(node.name))
        for holder in holders
        for name, n in holder.gres.items()
        if name.partition(":")[0] == base
    ]
    total_free = sum(of_name.values()) - sum(n for _, n in used)
    if ":" not in wanted:
        return total_free
    return min(of_name.get(wanted, 0) - sum(n for name, n in used if name == wanted), total_free)


def _has_features(node: SimNode, wanted: str) -> bool:
    """Match feature expressions of `&` (or `,`) and `|`, without brackets."""
    if not wanted:
        return True
    return all(
        any(one.strip() in node.features for one in part.split("|")) for part in wanted.replace(",", "&").split("&")
    )
