"""Make the one request of a complete gang from what its members were translated to."""

from __future__ import annotations

from collections.abc import Mapping

from extender.domain.gangs.agreement import Agreed, Disagreed, MemberRequest, agreed
from extender.domain.gangs.completeness import Complete
from extender.domain.gangs.membership import gang_title
from extender.domain.printable import enumerated
from extender.domain.translation.translate import Translation, TranslationRefused

MOST_FAULTS = 20
"""Faults of a gang that are described; how many more there are is one sentence."""

MOST_CHARACTERS = 4096
"""Characters of these sentences together. They go into Events, conditions, the log and the history of the gang, and a
gang has a thousand members: each may have other faults."""

MOST_NAMED = 3
"""Members that are named for one fault."""


def gang_request(found: Complete, translations: Mapping[str, Translation]) -> Agreed | Disagreed:
    """Return the request of the gang, or the first faults of its members. `translations` are by the UIDs of its Pods.

    A fault that several members have is one sentence.
    """
    with_fault, requests = dict[str, list[str]](), list[MemberRequest]()
    for one in found.members:
        translation, name = translations[one.pod.uid], one.pod.full_name
        if isinstance(translation, TranslationRefused):
            for fault in translation.faults:
                with_fault.setdefault(fault, []).append(name)
        else:
            requests.append(MemberRequest(name, translation.request))
    if with_fault:
        return Disagreed(_first(with_fault))
    return agreed(gang_title(found.members[0].membership), requests, found.size)


def _first(with_fault: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Return a sentence for each of the first faults, and in one more how many there are besides."""
    sentences, left = list[str](), MOST_CHARACTERS
    for fault, names in with_fault.items():
        sentence = f"{enumerated('Pod', names, MOST_NAMED)}: {fault}"
        if sentences and (len(sentences) == MOST_FAULTS or len(sentence) > left):
            sentences.append(f"{len(with_fault) - len(sentences)} more faults; correct these first")
            break
        sentences.append(sentence if len(sentence) <= left else f"{sentence[: left - 3]}...")
        left -= len(sentences[-1])
    return tuple(sentences)
