"""Group Pods into the workloads of a dry run, and decide which job each would get. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from extender.domain.gangs.agreement import Disagreed, MemberRequest, agreed
from extender.domain.gangs.completeness import GangCandidate, Incomplete, completeness
from extender.domain.gangs.membership import SHARED_NAMES, Membership, gang_title
from extender.domain.gangs.recognition import GangRefused, Recognition
from extender.domain.gangs.tenancy import tenant_of
from extender.domain.jobs.job import JobRequest
from extender.domain.translation.translate import Translated, Translation, TranslationRefused
from extender.domain.views import PodView


class DryResult(StrEnum):
    """Name the action that a workload would get."""

    SUBMITTED = "submitted"
    REFUSED = "refused"
    INCOMPLETE = "incomplete"
    """Pods of a gang are missing: no job would be submitted for the others."""


@dataclass(frozen=True, slots=True)
class DryRead:
    """A Pod as it was translated, and its workload: the key of its gang, or its UID."""

    pod: PodView
    key: str
    gang: Membership | None
    translation: Translation


@dataclass(frozen=True, slots=True)
class DryOutcome:
    """The action that a workload would get; only what belongs to `result` is given."""

    result: DryResult
    gang: str = ""
    """What messages call the gang; "": a single Pod."""

    request: JobRequest | None = None
    notices: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    missing: str = ""


def dry_read(pod: PodView, found: Recognition, translation: Translation, beyond_rule: str) -> DryRead:
    """Return the workload of a Pod. `beyond_rule`: why the policy does not allow its gang; "" if it does."""
    fault = found.text if isinstance(found, GangRefused) else beyond_rule
    if fault:
        others = translation.faults if isinstance(translation, TranslationRefused) else ()
        return DryRead(pod, pod.uid, None, TranslationRefused((fault, *others)))
    if not isinstance(found, Membership):
        return DryRead(pod, pod.uid, None, translation)
    if found.source not in SHARED_NAMES:
        return DryRead(pod, found.key(), found, translation)
    if isinstance(translation, Translated):
        return DryRead(pod, found.key(tenant_of(translation.request)), found, translation)
    return DryRead(pod, pod.uid, None, translation)


def outcome_of(reads: Sequence[DryRead], own_gates: Collection[str]) -> DryOutcome:
    """Return the action for the Pods of one workload. Raises `ValueError` for none."""
    if not reads:
        raise ValueError("a workload has at least one Pod")
    first = reads[0]
    if first.gang is None:
        return _alone(first.translation)
    found = completeness([GangCandidate(one.pod, one.gang) for one in reads if one.gang is not None], own_gates)
    if isinstance(found, Incomplete):
        return DryOutcome(DryResult.INCOMPLETE, first.gang.name, missing=found.text)
    said = {one.pod.uid: one.translation for one in reads}
    faults, asked, notices = list[str](), list[MemberRequest](), list[str]()
    for member in found.members:
        translation = said[member.pod.uid]
        if isinstance(translation, TranslationRefused):
            faults += [f"Pod {member.pod.full_name}: {fault}" for fault in translation.faults]
        else:
            asked.append(MemberRequest(member.pod.full_name, translation.request))
            notices += [notice.text for notice in translation.notices]
    if faults:
        return DryOutcome(DryResult.REFUSED, first.gang.name, faults=tuple(faults))
    together = agreed(gang_title(found.members[0].membership), asked, found.size)
    if isinstance(together, Disagreed):
        return DryOutcome(DryResult.REFUSED, first.gang.name, faults=together.faults)
    notices += [together.notice] if together.notice else []
    unique = tuple(dict.fromkeys(notices))
    return DryOutcome(DryResult.SUBMITTED, first.gang.name, together.request, notices=unique)


def _alone(translation: Translation) -> DryOutcome:
    if isinstance(translation, TranslationRefused):
        return DryOutcome(DryResult.REFUSED, faults=translation.faults)
    notices = tuple(notice.text for notice in translation.notices)
    return DryOutcome(DryResult.SUBMITTED, request=translation.request, notices=notices)
