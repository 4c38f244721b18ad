"""Show the console's rows: workloads, nodes with the Pods and jobs on them, and one Pod's timeline.

Every list and every text has a bound: names and reasons are foreign text, and a cluster may have 10,000 waiting Pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from extender.assembly import Assembly
from extender.domain.placeholder import Placeholder, State
from extender.domain.printable import printable
from extender.domain.views import PodView
from extender.engine.history import HistoryEntry
from extender.http.queue_inspection import QueueInspection, gpus_of
from extender.http.service import ConsoleQuery
from extender.runtime.cooperative_yield import CooperativeYield

MOST_WORKLOADS = 300
"""Rows of workloads. A search narrows them."""

MOST_NODES = 500
MOST_PARTITIONS = 100
MOST_REASONS = 12
"""Reasons of one partition; the others are counted together."""

MOST_ON_NODE = 16
"""Jobs, native jobs and other Pods that are named of one node; all are counted."""

MOST_NAMES = 8
LONGEST_TEXT = 300
LONGEST_STEP = 1000
"""Characters of one step of a timeline."""

WAITING, PLACED, ENDING, REFUSED, FINISHED = "waiting", "placed", "ending", "refused", "finished"
_ORDER = {WAITING: 0, REFUSED: 1, ENDING: 2, PLACED: 3, FINISHED: 4}
_KINDS = {
    State.BOUND: PLACED,
    State.LOST: ENDING,
    State.RELEASING: ENDING,
    State.REFUSED: REFUSED,
    State.GONE: FINISHED,
}


class ConsoleInspection:
    """Reads everything, changes nothing. `namespaces`: show Pods of these alone; empty: of all."""

    def __init__(self, assembly: Assembly, queue: QueueInspection, namespaces: Iterable[str] = ()) -> None:
        self._assembly = assembly
        self._queue = queue
        self._namespaces = frozenset(namespaces)

    async def state(self, query: ConsoleQuery) -> dict[str, Any]:
        """Return the rows that match a search, and how many there are besides."""
        engine, turns = self._assembly.engine, CooperativeYield()
        found: list[tuple[int, float, str, Placeholder]] = []
        by_node: dict[str, list[Placeholder]] = {}
        kinds: Counter[str] = Counter()
        wanted = query.search.casefold()
        for p in list(engine.placeholders.all.values()):
            await turns.maybe_yield()
            if not self._shows(p):
                continue
            kind = kind_of(p)
            kinds[kind] += 1
            for node in p.slurm_nodes if kind in {PLACED, ENDING} else ():
                by_node.setdefault(node, []).append(p)
            if not wanted or wanted in _searched(p):
                found.append((_ORDER[kind], self._created(p), p.key, p))
        found.sort(key=lambda one: one[:3])
        nodes, all_nodes = await self._nodes(by_node, turns)
        return {
            "at": self._assembly.io_context.clock.wall(),
            "cluster": cut(self._assembly.cluster),
            "namespaces": sorted(self._namespaces),
            "counts": dict(kinds),
            "workloads": [self._row(p) for *_, p in found[:MOST_WORKLOADS]],
            "workloadsFound": len(found),
            "nodes": nodes,
            "nodesFound": all_nodes,
            "partitions": await self._partitions(),
        }

    def pod(self, uid: str) -> dict[str, Any] | None:
        """Return a Pod's workload with its timeline; `None`: it is not known, or not shown."""
        engine = self._assembly.engine
        p = engine.placeholders.by_pod(uid)
        if p is None or not self._shows(p):
            return None
        request, view = p.request, self._assembly.informers.pods.get(uid)
        facts = {
            "Slurm job": str(p.job_id or ""),
            "Mode": str(p.mode or ""),
            "Partition": request.partition if request else "",
            "Account": request.account if request else "",
            "QOS": request.qos if request else "",
            "CPUs": str(request.cpus) if request else "",
            "Memory": f"{request.memory_mb} MiB" if request else "",
            "GRES": ", ".join(f"{name}:{count}" for name, count in sorted(request.gres.items())) if request else "",
            "Slurm nodes": ", ".join(p.slurm_nodes[:MOST_NAMES]),
            "Pod phase": view.phase if view else "",
            "Excluded nodes": str(len(p.job.excluded_sent)) if p.job is not None and p.job.excluded_sent else "",
        }
        return {
            **self._row(p),
            "namespace": cut(p.refs[0].namespace) if p.refs else "",
            "names": [cut(ref.name) for ref in p.refs[:MOST_ON_NODE]],
            "facts": [{"name": name, "value": cut(value)} for name, value in facts.items() if value],
            "faults": [cut(one) for one in p.faults[:MOST_NAMES]],
            "timeline": [_step(entry) for entry in engine.histories.of(p.key).entries],
        }

    def _shows(self, p: Placeholder) -> bool:
        return not self._namespaces or all(ref.namespace in self._namespaces for ref in p.refs)

    def _created(self, p: Placeholder) -> float:
        pods = self._assembly.informers.pods
        return min((pod.created_at for ref in p.refs if (pod := pods.get(ref.uid)) is not None), default=0.0)

    def _row(self, p: Placeholder) -> dict[str, Any]:
        node_map = self._assembly.engine.snapshot.node_map.kubernetes
        nodes = [node_map.get(node) or node for node in p.slurm_nodes]
        return {
            "uid": _uid(p),
            "pods": [cut(ref.full_name) for ref in p.refs[:MOST_NAMES]],
            "podsFound": len(p.refs),
            "kind": kind_of(p),
            "state": str(p.state),
            "jobId": p.job_id,
            "partition": cut(p.request.partition) if p.request is not None else "",
            "nodes": [cut(node) for node in nodes[:MOST_NAMES]],
            "nodesFound": len(nodes),
            "createdAt": self._created(p) or None,
            "cause": str((why := self._assembly.pod_controllers.explanations.of(p)).cause),
            "why": cut(why.text, LONGEST_STEP),
        }

    async def _nodes(
        self, by_node: Mapping[str, list[Placeholder]], turns: CooperativeYield
    ) -> tuple[list[dict[str, Any]], int]:
        snapshot = self._assembly.engine.snapshot
        native = self._assembly.node_controllers.native_jobs.shown()
        holds = {hold.name: hold for hold in self._assembly.node_controllers.controller.holds.values()}
        named = sorted(snapshot.slurm.nodes)
        rows = []
        for name in named[:MOST_NODES]:
            node, kubernetes = snapshot.slurm.nodes[name], snapshot.node_map.kubernetes.get(name) or ""
            placed, hold = by_node.get(name, []), holds.get(name)
            others = self._others(kubernetes, placed)
            rows.append(
                {
                    "name": cut(name),
                    "node": cut(kubernetes),
                    "state": cut("+".join([node.state, *sorted(node.flags)])),
                    "reason": cut(node.reason),
                    "partitions": [cut(one) for one in node.partitions[:MOST_NAMES]],
                    "cpus": node.cpus,
                    "cpusUsed": node.used.cpus,
                    "memoryMb": node.memory_mb,
                    "memoryUsedMb": node.used.memory_mb,
                    "gpus": gpus_of(node.gres),
                    "gpusUsed": gpus_of(node.used.gres),
                    "jobs": [_on_node(p) for p in placed[:MOST_ON_NODE]],
                    "jobsFound": len(placed),
                    "native": native.get(name, [])[:MOST_ON_NODE],
                    "nativeFound": len(native.get(name, [])),
                    "others": [cut(pod.full_name) for pod in others[:MOST_ON_NODE]],
                    "othersFound": len(others),
                    "holds": [cut(f"{cause}: {text}") for cause, text in list(hold.holds.items())[:MOST_NAMES]]
                    if hold is not None
                    else [],
                }
            )
            await turns.maybe_yield()
        return rows, len(named)

    def _others(self, kubernetes: str, placed: Iterable[Placeholder]) -> list[PodView]:
        """Return the Pods of a Node that Slurm did not place, without those that belong to each Node."""
        if not kubernetes:
            return []
        placed_uids = {ref.uid for p in placed for ref in p.refs}
        return [
            pod
            for pod in self._assembly.informers.pods.on_node(kubernetes)
            if pod.uid not in placed_uids
            and not pod.of_its_node
            and (not self._namespaces or pod.namespace in self._namespaces)
            and self._assembly.engine.placeholders.by_pod(pod.uid) is None
        ]

    async def _partitions(self) -> list[dict[str, Any]]:
        shows: Callable[[Placeholder], bool] | None = self._shows if self._namespaces else None
        found = (await self._queue.queue(shows))["partitions"]
        rows = []
        for one in found[:MOST_PARTITIONS]:
            reasons = list(one["reasons"].items())
            shown = [{"reason": cut(reason), "count": count} for reason, count in reasons[:MOST_REASONS]]
            if rest := sum(count for _, count in reasons[MOST_REASONS:]):
                shown.append({"reason": "other reasons", "count": rest})
            rows.append({**one, "name": cut(one["name"]), "reasons": shown})
        return rows


def kind_of(p: Placeholder) -> str:
    """Return the kind of row that a workload has."""
    return _KINDS.get(p.state, WAITING)


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text that is safe to show, with an ellipsis where it is longer than `most` characters."""
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[:most]}…"


def _searched(p: Placeholder) -> str:
    """Return what a search looks through: Pods, job, partition and nodes."""
    request = p.request
    words = [*(ref.full_name for ref in p.refs), str(p.job_id or ""), str(p.state), *p.slurm_nodes]
    words += [request.partition, request.account] if request is not None else []
    return "\n".join(words).casefold()


def _uid(p: Placeholder) -> str:
    """Return the UID of a Pod by which `pod` finds this workload; "": the workload has no member."""
    return next((ref.uid for ref in (*p.refs, *(member.ref for member in p.members))), "")


def _on_node(p: Placeholder) -> dict[str, Any]:
    names = [cut(ref.full_name) for ref in p.refs[:1]]
    more = f" and {len(p.refs) - 1} more" if len(p.refs) > 1 else ""
    return {"uid": _uid(p), "jobId": p.job_id, "pods": f"{names[0] if names else ''}{more}", "kind": kind_of(p)}


def _step(entry: HistoryEntry) -> dict[str, Any]:
    line = entry.line()
    move = f"{entry.before} → {entry.after}" if entry.before is not entry.after else str(entry.after)
    event = type(entry.event).__name__
    commands = [type(command).__name__ for command in entry.commands[:MOST_NAMES]]
    return {
        "at": entry.wall,
        "move": move,
        "moved": entry.before is not entry.after,
        "event": event,
        "source": cut(entry.source),
        "commands": commands,
        "line": cut(line, LONGEST_STEP),
    }
