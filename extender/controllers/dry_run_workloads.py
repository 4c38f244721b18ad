"""Group Pods into the workloads of a dry run, and decide which job each would get. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from extender.domain.gangs.agreement import Disagreed
from extender.domain.gangs.completeness import GangCandidate, Incomplete, completeness
from extender.domain.gangs.membership import Membership
from extender.domain.gangs.recognition import GangRefused, Recognition
from extender.domain.gangs.tenancy import gang_key
from extender.domain.jobs.job import JobRequest
from extender.domain.translation.gang_request import gang_request
from extender.domain.translation.translate import Translated, Translation, TranslationRefused
from extender.domain.views import PodView
from extender.engine.workload_resolver import WorkloadResolver


class DryResult(StrEnum):
    """Name the action that a workload would get."""

    SUBMITTED = "submitted"
    REFUSED = "refused"
    INCOMPLETE = "incomplete"
    """Pods of a gang are missing: no job would be submitted for the others."""


@dataclass(frozen=True, slots=True)
class DryRead:
    """A Pod as it was translated, and the key of its workload."""

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
    single = WorkloadResolver.key_of_single(pod)
    if fault:
        others = translation.faults if isinstance(translation, TranslationRefused) else ()
        return DryRead(pod, single, None, TranslationRefused((fault, *others)))
    if not isinstance(found, Membership):
        return DryRead(pod, single, None, translation)
    key = gang_key(found, translation.request if isinstance(translation, Translated) else None)
    return DryRead(pod, single, None, translation) if key is None else DryRead(pod, key, found, translation)


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
    translations = {one.pod.uid: one.translation for one in reads}
    together = gang_request(found, translations)
    if isinstance(together, Disagreed):
        return DryOutcome(DryResult.REFUSED, first.gang.name, faults=together.faults)
    members = (translations[one.pod.uid] for one in found.members)
    notices = [notice.text for one in members if isinstance(one, Translated) for notice in one.notices]
    notices += [together.notice] if together.notice else []
    unique = tuple(dict.fromkeys(notices))
    return DryOutcome(DryResult.SUBMITTED, first.gang.name, together.request, notices=unique)


def _alone(translation: Translation) -> DryOutcome:
    if isinstance(translation, TranslationRefused):
        return DryOutcome(DryResult.REFUSED, faults=translation.faults)
    notices = tuple(notice.text for notice in translation.notices)
    return DryOutcome(DryResult.SUBMITTED, request=translation.request, notices=notices)
