"""Hold what each Pod of a gang says and requests, and decide which of it counts for the gang."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from extender.domain.gangs.agreement import misfit, shared_settings
from extender.domain.gangs.completeness import GangCandidate, waits_for_slot
from extender.domain.gangs.membership import SIZE_ON_PODS, GangSource, Membership
from extender.domain.jobs.job import JobRequest
from extender.domain.placeholder import Placeholder
from extender.domain.translation.translate import Translated, Translation, TranslationRefused
from extender.domain.wellknown import Reason


@dataclass(frozen=True, slots=True)
class Joined:
    """A Pod that says that it belongs to the gang, and what it requests by itself."""

    uid: str
    membership: Membership
    translation: Translation


def settings_of(pod: str, joined: Joined) -> str:
    """Return what all members of a gang have alike, of this Pod (`namespace/name`); "" if the Pod is refused."""
    translation = joined.translation
    return shared_settings(pod, translation.request) if isinstance(translation, Translated) else ""


def why_beyond(one: GangCandidate, joined: Joined, request: JobRequest | None) -> tuple[Reason, str]:
    """Return the Event of a Pod for which the gang has no place: it waits, unless it may never have one as it is."""
    translation = joined.translation
    if isinstance(translation, TranslationRefused):
        return Reason.INVALID_SLURM_SETTINGS, "; ".join(translation.faults)
    if request is not None and (text := misfit(request, translation.request)):
        return Reason.INVALID_SLURM_SETTINGS, text
    return Reason.JOB_PENDING, waits_for_slot(one.membership.name)


def with_one_size(joined: dict[str, Joined]) -> Mapping[str, Joined]:
    """Return the Pods with the size that their owner said last, where it is the owner that says it."""
    last = next((one for one in reversed(joined.values()) if not one.membership.unknown), None)
    if last is None or last.membership.source in SIZE_ON_PODS:
        return joined
    if last.membership.source is GangSource.LEADER_WORKER_SET:
        # The size is on each Pod of it, also on one whose author forged its owner. The UID of the leader is the gang's.
        last = joined.get(last.membership.incarnation[0], last)
    expected, unknown = last.membership.expected, last.membership.unknown
    return {
        uid: one
        if (one.membership.expected, one.membership.unknown) == (expected, unknown)
        else replace(one, membership=replace(one.membership, expected=expected, unknown=unknown))
        for uid, one in joined.items()
    }


def untranslatable(
    p: Placeholder, candidates: Sequence[GangCandidate], joined: Mapping[str, Joined]
) -> Iterator[tuple[GangCandidate, str]]:
    """Yield the later Pods of a gang with nodes that may have none of them as they are, each with the faults."""
    for one in candidates:
        translation = joined[one.pod.uid].translation
        if isinstance(translation, TranslationRefused) and not one.pod.node_name and not p.has_slot(one.pod.uid):
            yield one, "; ".join(translation.faults)
