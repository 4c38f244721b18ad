"""Reads the policy file, and makes of it what the translation of Pods asks, together with the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from extender.config import pod_policy as wire
from extender.config.derive import translation_policy
from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError
from extender.config.keys import POLICY
from extender.config.label_selector import LabelSelector
from extender.config.load import held_to, read_map, text_of
from extender.config.override import Overrides
from extender.domain.policy.selectors import Selector
from extender.domain.policy.site import TranslationPolicy
from extender.domain.policy.tenancy import ANY, Allowed, ClassValues, JobOwner, PodMatch, PodPolicy, Range, TenancyRule
from extender.domain.translation.settings import GROUP_ID, USER_ID


def load_policy(file: Path, configuration: ExtenderConfiguration) -> TranslationPolicy:
    """The site's decisions, those of the policy file among them.

    Raises ConfigError with everything that is wrong.
    """
    return parse_policy(text_of(file), str(file), configuration)


def parse_policy(text: str, name: str, configuration: ExtenderConfiguration) -> TranslationPolicy:
    """The same for text; `name` stands for it in faults.

    Raises ConfigError.
    """
    document, origin = read_map(text, name, "apiVersion, kind and rules")
    found = held_to(wire.PodPolicyDocument, POLICY, document, origin, Overrides())
    policy = translation_policy(configuration)
    if unknown := [f"{name}: {fault}" for fault in _unknown_people(found, policy)]:
        raise ConfigError(unknown)
    return replace(policy, pods=_policy(found))


def _policy(document: wire.PodPolicyDocument) -> PodPolicy:
    return PodPolicy(
        rules=tuple(
            TenancyRule(one.name, _match(one.match), one.defaults, _allowed(one.allow), one.start_limit)
            for one in document.rules
        ),
        owners=tuple(
            JobOwner(_match(one.match), one.user or "", one.group or "", one.account or "") for one in document.owners
        ),
        classes={
            name: ClassValues(one.priority, one.nice, one.qos or "") for name, one in document.priority_classes.items()
        },
    )


def _match(match: wire.MatchSettings) -> PodMatch:
    return PodMatch(
        match.namespaces, _selector(match.namespace_selector), _selector(match.pod_selector), match.service_accounts
    )


def _selector(selector: LabelSelector | None) -> Selector | None:
    return None if selector is None else selector.selector


def _allowed(allow: wire.Allow) -> Allowed:
    return Allowed(
        account=allow.account,
        partition=allow.partition,
        qos=allow.qos,
        reservation=allow.reservation,
        user_id=allow.user_id,
        group_id=allow.group_id,
        priority=_range(allow.priority),
        nice=_range(allow.nice),
        time_limit_minutes=_range(allow.time_limit_minutes),
        exclusive=allow.exclusive,
        mode=allow.mode,
    )


def _range(bounds: wire.NumberBounds | None) -> Range | None:
    return None if bounds is None else Range(bounds.at_least, bounds.at_most)


def _unknown_people(document: wire.PodPolicyDocument, policy: TranslationPolicy) -> Iterator[str]:
    """Names that the configuration does not know. One that is made of a Pod's namespace is looked up for each Pod."""
    users: list[tuple[str, str | None]] = []
    groups: list[tuple[str, str | None]] = []
    for at, rule in enumerate(document.rules):
        place = f"rules[{at}]"
        users += [(f"{place}.defaults.userId", rule.defaults.get(USER_ID))]
        users += [(f"{place}.allow.userId", one) for one in rule.allow.user_id or ()]
        groups += [(f"{place}.defaults.groupId", rule.defaults.get(GROUP_ID))]
        groups += [(f"{place}.allow.groupId", one) for one in rule.allow.group_id or ()]
    for at, owner in enumerate(document.owners):
        users += [(f"owners[{at}].user", None if owner.user is not None and "{" in owner.user else owner.user)]
        groups += [(f"owners[{at}].group", owner.group)]
    for where, given, known in (("users", users, policy.user), ("groups", groups, policy.group)):
        for key, text in given:
            if text is not None and text != ANY and known(text) is None:
                yield f'{key}: "{text}" is not known; it must be a number, or a name from slurm.{where}'
