"""The running extender: what it says of itself, and whether kube-scheduler calls it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from extender.doctor.finding import Finding, ok, unseen, warning, wrong

CHECK = "extender"
CALLS = "calls"


ASKED_WITHIN_S = 10.0
"""A new Pod is asked for within milliseconds; others may stand before it."""

ASKED_AGAIN_S = 420.0
"""kube-scheduler comes back to a Pod at the latest after five minutes, which it looks for every 30 s, and its longest
back-off, a minute in the shipped profile (`scheduling_queue.go`, flushUnschedulableEntitiesLeftover)."""


@dataclass(frozen=True, slots=True)
class HealthLine:
    """One line of its `/readyz?verbose`."""

    name: str
    ok: bool
    text: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class RunningExtender:
    """`error`: it was not reached where this configuration says. `filters`: calls of /filter since its start."""

    error: str = ""
    lines: Sequence[HealthLine] = ()
    filters: int | None = None
    leads: bool | None = None
    quiet_s: float | None = None
    """For how long /filter was not called; counted from the instant from which it could be."""

    waiting_s: Sequence[float] = ()
    """The ages of Pods of ours for which it should be: on no node, behind no gate, not rejected by kube-scheduler."""


def process(given: RunningExtender, scheduler: str, known: Collection[str] = ()) -> Iterator[Finding]:
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
            CHECK, f"{line.name}: {line.text or 'failed'}", "docs/failures.md and the log of the extender say more"
        )
    if not bad:
        yield ok(CHECK, f"it is ready: {len(given.lines)} checks passed")
    yield from _calls(given, scheduler)


def _calls(given: RunningExtender, scheduler: str) -> Iterator[Finding]:
    if given.filters is None:
        yield unseen(
            CALLS, "its metrics were not reached", "`slurm_extender_last_filter_timestamp_seconds` in /metrics"
        )
        return
    if given.leads is False:
        yield unseen(CALLS, "this replica follows, and counts for itself", "ask the leader")
        return
    quiet = (0.0 if given.filters else inf) if given.quiet_s is None else given.quiet_s
    overdue = [age for age in given.waiting_s if _overdue(age, quiet)]
    since = "" if quiet == inf else f" for {quiet:.0f} s"
    if overdue:
        yield wrong(
            CALLS,
            f"kube-scheduler has {'not called' + since if given.filters else 'never called'}, and {len(overdue)} Pods "
            f"of {scheduler} wait for it",
            f"see that a kube-scheduler with the profile {scheduler} runs, that its urlPrefix leads here by the scheme "
            "that is served, and its log for `extender`",
        )
    elif given.filters:
        yield ok(CALLS, f"kube-scheduler called /filter {quiet:.0f} s ago, {given.filters} times in all")
    elif given.waiting_s:
        yield unseen(
            CALLS,
            f"kube-scheduler has not called{since}, which is not long",
            f"look again when Pods wait, {ASKED_AGAIN_S:.0f} s after the start",
        )
    else:
        yield ok(CALLS, "kube-scheduler has not called; no Pod waits for it")


def _overdue(age_s: float, quiet_s: float) -> bool:
    """It should have been asked about this Pod by now: it came after the last call, or that was too long ago."""
    return age_s >= ASKED_WITHIN_S and (age_s < quiet_s or quiet_s >= ASKED_AGAIN_S)
