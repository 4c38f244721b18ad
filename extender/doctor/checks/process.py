"""The running extender: what it says of itself, and whether kube-scheduler calls it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from extender.doctor.finding import Finding, ok, unseen, warning, wrong

CHECK = "extender"
CALLS = "calls"


@dataclass(frozen=True, slots=True)
class HealthLine:
    """One line of its `/readyz?verbose`."""

    name: str
    ok: bool
    text: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Running:
    """`error`: it was not reached where this configuration says. `filters`: calls of /filter since its start."""

    error: str = ""
    lines: Sequence[HealthLine] = ()
    filters: int | None = None
    leads: bool | None = None
    waiting: int = 0
    """Pods of ours that are on no node and behind no gate."""


def process(given: Running, scheduler: str, known: Collection[str] = ()) -> Iterator[Finding]:
    """Lines for what it complains of, and one for kube-scheduler's calls. `known` was said of Slurm already."""
    if given.error:
        yield unseen(
            CHECK,
            f"it was not reached: {given.error}",
            "in its Pod this sees it; from a laptop `kubectl port-forward -n slurm-extender deploy/slurm-extender 8081 "
            "8082` shows /readyz?verbose and /metrics",
        )
        return
    bad = [line for line in given.lines if not line.ok and not set(line.text.split("; ")) <= set(known)]
    for line in bad:
        judge = wrong if line.required else warning
        yield judge(
            CHECK, f"{line.name}: {line.text or 'failed'}", "docs/design.md and the log of the extender say more"
        )
    if not bad:
        yield ok(CHECK, f"it is ready: {len(given.lines)} checks passed")
    yield from _calls(given, scheduler)


def _calls(given: Running, scheduler: str) -> Iterator[Finding]:
    if given.filters is None:
        yield unseen(CALLS, "its metrics were not reached", "`slurm_extender_filter_seconds_count` in /metrics")
    elif given.filters:
        yield ok(CALLS, f"kube-scheduler has called /filter {given.filters} times")
    elif given.leads is False:
        yield unseen(CALLS, "this replica follows, and counts for itself", "ask the leader")
    elif given.waiting:
        yield wrong(
            CALLS,
            f"kube-scheduler has never called, and {given.waiting} Pods of {scheduler} wait for it",
            f"see that a kube-scheduler with the profile {scheduler} runs, that its urlPrefix leads here by the scheme "
            "that is served, and its log for `extender`",
        )
    else:
        yield ok(CALLS, "kube-scheduler has not called; no Pod waits for it")
