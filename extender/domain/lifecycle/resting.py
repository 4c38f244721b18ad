"""ABSENT, REFUSED and GONE: no job exists."""

from __future__ import annotations

from extender.domain import events as e
from extender.domain.lifecycle.moves import (
    claimed,
    later,
    note_cancelled,
    rest,
)
from extender.domain.lifecycle.table import (
    ABSENT,
    GONE,
    REFUSED,
    SUBMITTING,
    TABLE,
    UNSURE,
    At,
    Step,
)
from extender.domain.placeholder import Placeholder
from extender.domain.renewal import replace


@TABLE.on((ABSENT,), (e.PodWanted,), (SUBMITTING, REFUSED))
@TABLE.on((ABSENT,), (e.CandidatesChanged, e.TimerFired), (SUBMITTING,))
@TABLE.on((ABSENT,), (e.PodRefused,), (REFUSED,))
def _absent_changed(p: Placeholder, event: e.Event, at: At) -> Step:
    """Something that an attempt needs may be there now."""
    elsewhere = isinstance(event, e.CandidatesChanged) or p.request != p.asked
    return rest(replace(p, retry_at=0.0) if p.fits_nowhere and elsewhere else p, at)


@TABLE.on((ABSENT,), (e.PictureChanged,), (SUBMITTING,))
def _nodes_changed(p: Placeholder, _event: e.PictureChanged, at: At) -> Step:
    """There are other nodes, or they have another size: what fitted on none is tried at once."""
    return rest(replace(p, retry_at=0.0), at) if p.fits_nowhere else (p, [])


@TABLE.on((REFUSED,), (e.CandidatesChanged, e.PictureChanged), (ABSENT,))
def _refused_by_other_nodes(p: Placeholder, _event: e.Event, at: At) -> Step:
    """There are other nodes than those for which Slurm said no: it is asked once more, and not for every change."""
    if not (p.fits_nowhere and p.wants) or p.faults or p.cancelled is not None:
        return p, []
    return rest(later(replace(p, fits_nowhere=False), at), at)


@TABLE.on((ABSENT, REFUSED), (e.PodBound,), (UNSURE, REFUSED))
def _bound_without_job(p: Placeholder, event: e.PodBound, at: At) -> Step:
    """A Binding of ours, of which Slurm says whether its job still runs; somebody else's is respected."""
    if event.job_id is not None:
        return claimed(p, event.job_id, at)
    return rest(p, at) if p.state is ABSENT else (p, [])


@TABLE.on((REFUSED,), (e.PodWanted,), (SUBMITTING, ABSENT))
def _asks_differently(p: Placeholder, _event: e.PodWanted, at: At) -> Step:
    """The Pod changed what it asks: try again."""
    if p.request == p.asked or p.placed:
        return p, []
    return rest(replace(p, failures=0, retry_at=0.0), at)


@TABLE.on((REFUSED,), (e.PodRefused,), ())
def _refused_again(p: Placeholder, _event: e.PodRefused, at: At) -> Step:
    """Its settings are unusable in another way."""
    return (p, []) if p.reason == "; ".join(p.faults) or p.placed else rest(p, at)


@TABLE.on((REFUSED,), (e.CancelNoted,), ())
def _noted(p: Placeholder, event: e.CancelNoted, at: At) -> Step:
    """A person's cancel is written on the Pod, or has to be written again."""
    if event.uid not in p.note_owed:
        return p, []
    if event.accepted:
        return replace(p, note_owed=p.note_owed - {event.uid}), []
    return replace(p, wake_at=at.now + at.timing.cancel_retry_most), []


@TABLE.on((REFUSED,), (e.TimerFired,), ())
def _note_due(p: Placeholder, _event: e.TimerFired, _at: At) -> Step:
    """Write again what the API server did not take."""
    return p, note_cancelled(p)


@TABLE.on((ABSENT, REFUSED), (e.PodGone,), (GONE,))
def _left_without_job(p: Placeholder, _event: e.Event, at: At) -> Step:
    """A member left while no job was there."""
    return rest(p, at) if p.over else (p, [])
