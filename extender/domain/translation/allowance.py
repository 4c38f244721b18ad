"""Checks the wishes of a Pod against its rule of the policy. Each fault names the rule, the value, and what is allowed.

A default of the site needs no permission. A value that neither the Pod nor the site gives is Slurm's choice, and the
rule must allow that as well: "" in a list of names, `false` for `exclusive` and `auto` for `mode`. Slurm never chooses
a reservation; and a time limit that is not given is the longest that is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from extender.domain.jobs.job import Exclusive, Mode
from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.selectors import fits
from extender.domain.policy.site import TranslationPolicy
from extender.domain.policy.tenancy import ANY, ClassValues, Range, TenancyRule
from extender.domain.translation import annotation_table as table
from extender.domain.translation.annotation_reader import Chosen
from extender.domain.translation.annotation_table import Setting
from extender.domain.translation.forms import Unsent
from extender.domain.translation.permissions import run_as
from extender.domain.views import PodView

_LISTS = frozenset({table.PARTITION.name, table.QOS.name, table.RESERVATION.name})
"""Settings that hold several names with commas between them; each must be allowed."""


@dataclass(frozen=True, slots=True)
class PodWishes:
    """A Pod, its settings, the values of its PriorityClass, and its defaults without them."""

    pod: PodView
    chosen: Chosen
    of_class: ClassValues
    defaults: JobDefaults

    def of(self, setting: Setting[Any], by_class: object = None) -> tuple[str, Any]:
        """Return the wish as the beginning of a sentence, and its value; "" and `None`: there is no wish."""
        value = self.chosen.get(setting)
        if value is not None:
            return self.chosen.says(setting), value
        if by_class in (None, ""):
            return "", None
        return f'{setting.name} {by_class} of priorityClassName: "{self.pod.priority_class}"', by_class


def decided(rule: TenancyRule | None) -> frozenset[str]:
    """Return the restricted settings for which the rule decides instead of the site's `jobs.allow`."""
    if rule is None:
        return frozenset()
    allowed = rule.allowed
    says = {
        table.USER_ID.name: allowed.user_id,
        table.GROUP_ID.name: allowed.user_id if allowed.group_id is None else allowed.group_id,
        table.PRIORITY.name: allowed.priority,
        table.NICE.name: allowed.nice,
    }
    return frozenset(name for name, value in says.items() if value is not None)


def beyond(rule: TenancyRule, wishes: PodWishes, policy: TranslationPolicy) -> Iterator[str]:
    """Yield a fault for every wish of the Pod that the rule does not allow."""
    yield from _names(rule, wishes)
    yield from _words(rule, wishes)
    yield from _numbers(rule, wishes)
    yield from _people(rule, wishes, policy)


def _names(rule: TenancyRule, wishes: PodWishes) -> Iterator[str]:
    allowed = rule.allowed
    for setting, patterns, by_class in (
        (table.ACCOUNT, allowed.account, ""),
        (table.PARTITION, allowed.partition, ""),
        (table.QOS, allowed.qos, wishes.of_class.qos),
        (table.RESERVATION, allowed.reservation, ""),
    ):
        if patterns is None:
            continue
        says, text = wishes.of(setting, by_class)
        default_value = wishes.defaults.get(setting)
        if text is None or text == default_value:
            if not (text or default_value or "" in patterns or setting is table.RESERVATION):
                yield _unsaid(rule, setting, patterns)
            continue
        names = text.split(",") if setting.name in _LISTS else [text]
        if not all(fits(name, [one for one in patterns if one]) for name in names):
            yield _not_allowed(rule, says, _listed(patterns))


def _words(rule: TenancyRule, wishes: PodWishes) -> Iterator[str]:
    leave = str(Unsent.AS_THE_PARTITION_SAYS)
    checked: tuple[tuple[Setting[Any], Sequence[str] | None, str], ...] = (
        (table.EXCLUSIVE, rule.allowed.exclusive, leave),
        (table.MODE, rule.allowed.mode, str(Mode.AUTO)),
    )
    for setting, words, unsaid in checked:
        if words is None:
            continue
        says, value = wishes.of(setting)
        default_value = wishes.defaults.get(setting)
        if value is None or value == default_value:
            if value is None and default_value is None and unsaid not in words:
                yield _unsaid(rule, setting, words)
        elif value not in words:
            yield _not_allowed(rule, says, _listed(words))


def _numbers(rule: TenancyRule, wishes: PodWishes) -> Iterator[str]:
    allowed = rule.allowed
    wanted: tuple[tuple[Setting[int], Range | None, int | None], ...] = (
        (table.PRIORITY, allowed.priority, wishes.of_class.priority),
        (table.NICE, allowed.nice, wishes.of_class.nice),
        (table.TIME_LIMIT, allowed.time_limit, None),
    )
    for setting, bounds, by_class in wanted:
        says, value = wishes.of(setting, by_class)
        default_value = wishes.defaults.get(setting)
        if bounds is not None and value is not None and value != default_value and not bounds.holds(value):
            yield _not_allowed(rule, says, bounds.text)


def _people(rule: TenancyRule, wishes: PodWishes, policy: TranslationPolicy) -> Iterator[str]:
    """Yield a fault for a user or group that is not allowed; unknown names are faults elsewhere (`misnamed`).

    A user comes with the group of the site's list; any other group has to be allowed. A user asked for by number brings
    the group of that number, which may belong to another user.
    """
    chosen, defaults = wishes.chosen, wishes.defaults
    users, groups = rule.allowed.user_id, rule.allowed.group_id
    user, group = chosen.get(table.USER_ID), chosen.get(table.GROUP_ID)
    person, default_person = run_as(user, group, defaults, policy), run_as(None, None, defaults, policy)
    if person is None or person == default_person:
        return
    own = default_person is not None and person.uid == default_person.uid
    same = [one for name in users or () if (one := policy.user(name)) is not None and one.uid == person.uid]
    own_groups = {one.gid for one in same} | ({default_person.gid} if own and default_person is not None else set())
    others = {policy.group(name) for name in groups or ()}
    if not own and users is not None and not same and ANY not in users:
        yield _not_allowed(rule, chosen.says(table.USER_ID), _listed(users))
    elif person.gid in own_groups | others or ANY in (groups or ()):
        return
    elif group is not None and (groups is not None or users is not None):
        yield _not_allowed(rule, chosen.says(table.GROUP_ID), _listed(groups or ()))
    elif group is None and users is not None and ANY not in users:
        by_number = f"{chosen.says(table.USER_ID)} brings group {person.gid} with it; the number alone"
        yield _not_allowed(rule, by_number, f"{_listed(users)}, by the name or with group-id")


def may_have_whole_node(rule: TenancyRule | None, chosen: Chosen, defaults: JobDefaults) -> bool:
    """Return whether the job of a Pod without requests may have a node for itself: its author and its rule agree."""
    alone = str(Exclusive.NONE)
    requested = chosen.get(table.EXCLUSIVE)
    if requested is not None and requested != alone:
        return False
    words = None if rule is None else rule.allowed.exclusive
    return words is None or alone in words or defaults.get(table.EXCLUSIVE) == alone


def too_long(rule: TenancyRule | None, least: int) -> Iterator[str]:
    """Yield a fault where the Pods' own deadlines need more time than the rule allows."""
    bounds = None if rule is None else rule.allowed.time_limit
    if rule is not None and bounds is not None and bounds.at_most is not None and least > bounds.at_most:
        yield _not_allowed(rule, f"activeDeadlineSeconds, which needs a time limit of {least} min,", bounds.text)


def too_many(rule: TenancyRule | None, gang: str, members: int) -> str:
    """Return a fault where the rule does not allow a gang of so many members; "" where it does."""
    most = None if rule is None else rule.allowed.largest_gang
    if rule is None or most is None or members <= most:
        return ""
    return _not_allowed(rule, f"{gang} with {members} Pods", "no gang" if most == 1 else f"at most {most}")


def _not_allowed(rule: TenancyRule, says: str, allowed: str) -> str:
    return f"{says} is not allowed by rule {_quoted(rule.name)} of the policy; it allows {allowed}"


def _unsaid(rule: TenancyRule, setting: Setting[Any], allowed: Sequence[str]) -> str:
    return (
        f"{setting.name} is not set, and rule {_quoted(rule.name)} of the policy requires a value; "
        f"it allows {_listed(allowed)}"
    )


def _listed(allowed: Sequence[str]) -> str:
    return ", ".join(filter(None, allowed)) or "none"


def _quoted(name: str) -> str:
    return f'"{name}"'
