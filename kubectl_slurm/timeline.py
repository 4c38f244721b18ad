"""Merge what happened to a Pod in one timeline: its state, its Events, and the steps of the extender."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from extender.domain.wellknown import ALLOCATED_CONDITION
from kubectl_slurm.age import instant, seconds_of
from kubectl_slurm.debug import objects
from kubectl_slurm.pods import gates_of, said_at

Json = dict[str, Any]

EXTENDER = "slurm-extender"


def of_pod(pod: Json) -> Iterator[Json]:
    """Yield the instants of its API object: each is the last one of its kind."""
    meta, status = pod["metadata"], pod.get("status") or {}
    held = ", ".join(gates_of(pod))
    yield _row("Pod", meta.get("creationTimestamp"), f"created, held by {held}" if held else "created")
    for one in objects(status.get("conditions")):
        yield _row("Pod", one.get("lastTransitionTime"), _condition(one, pod))
    for one in objects(status.get("initContainerStatuses")) + objects(status.get("containerStatuses")):
        state = one.get("state") or {}
        running, ended = state.get("running") or {}, state.get("terminated") or {}
        yield _row("Pod", running.get("startedAt") or ended.get("startedAt"), f"container {one.get('name')} started")
        how = f"{ended.get('reason', 'ended')}, exit code {ended.get('exitCode')}"
        yield _row("Pod", ended.get("finishedAt"), f"container {one.get('name')} ended: {how}")
    grace = meta.get("deletionGracePeriodSeconds")
    gone = seconds_of(str(meta.get("deletionTimestamp", "")))
    if gone is not None:
        # The API server writes when it is to be gone, not when that was asked for.
        yield _row(
            "Pod", instant(gone - (grace or 0)), f"its deletion was requested, with a grace period of {grace or 0} s"
        )


def of_events(events: Iterable[Json]) -> Iterator[Json]:
    """Yield the rows of a Pod's Events."""
    for one in events:
        series = one.get("series") or {}
        times = max(series.get("count") or 0, one.get("deprecatedCount") or 0)
        message = f"{one.get('reason', '')}: {one.get('note', '')}" + (f" ({times} times)" if times > 1 else "")
        source = (one.get("deprecatedSource") or {}).get("component")
        yield _row(one.get("reportingController") or source or "Event", said_at(one), message)


def of_extender(record: Json) -> Iterator[Json]:
    """Yield the steps of `/debug`, and the current reason."""
    for one in objects(record.get("history")):
        at = one.get("at")
        text = instant(at) if isinstance(at, int | float) else ""
        yield _row(EXTENDER, text, str(one.get("line", "")))


def in_order(rows: Iterable[Json]) -> list[Json]:
    """Sort the earliest first; those of one second as they came. Rows without a time stand at the end."""
    found = [row for row in rows if row["time"] or row["message"]]
    return sorted(found, key=lambda row: (seconds_of(row["time"]) is None, int(seconds_of(row["time"]) or 0)))


def _row(source: str, at: object, what: str) -> Json:
    """Return a row. `at` is `None` or "" where nothing happened yet."""
    message = what if at or source != "Pod" else ""
    return {"time": _short(str(at)) if at else "", "source": source, "message": message}


def _short(at: str) -> str:
    """Return whole seconds, whatever wrote them."""
    seconds = seconds_of(at)
    return at if seconds is None else instant(seconds)


def _condition(one: Json, pod: Json) -> str:
    kind, status = one.get("type"), one.get("status")
    if kind == ALLOCATED_CONDITION and status != "True":
        return f"waits ({one.get('reason', '')}): {one.get('message', '')}"
    if kind == "PodScheduled" and status == "True":
        return f"is on Node {(pod.get('spec') or {}).get('nodeName', '')}"
    why = ", ".join(str(one[key]) for key in ("reason", "message") if one.get(key))
    return f"{kind} is {status}{f': {why}' if why else ''}"
