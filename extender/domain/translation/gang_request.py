"""Make the one request of a complete gang from what its members were translated to."""

from __future__ import annotations

from collections.abc import Mapping

from extender.domain.gangs.agreement import Agreed, Disagreed, MemberRequest, agreed
from extender.domain.gangs.completeness import Complete
from extender.domain.gangs.membership import gang_title
from extender.domain.translation.translate import Translation, TranslationRefused


def gang_request(found: Complete, translations: Mapping[str, Translation]) -> Agreed | Disagreed:
    """Return the request of the gang, or every fault of its members. `translations` are those of its Pods, by UID."""
    faults, requests = list[str](), list[MemberRequest]()
    for one in found.members:
        translation, name = translations[one.pod.uid], one.pod.full_name
        if isinstance(translation, TranslationRefused):
            faults += [f"Pod {name}: {fault}" for fault in translation.faults]
        else:
            requests.append(MemberRequest(name, translation.request))
    return Disagreed(tuple(faults)) if faults else agreed(gang_title(found.members[0].membership), requests, found.size)
