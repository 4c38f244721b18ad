"""Read the settings of one Pod from its annotations and those of its root owner. `annotation_table` lists all of them.

Under one prefix the Pod goes before its owner. Under two prefixes the values must mean the same. An empty value says
nothing. All of it is written by the author of a Pod: a value is bounded before any form reads it, and so is what is
said about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from extender.domain import wellknown
from extender.domain.policy.site import TimeoutUnit, TranslationPolicy
from extender.domain.printable import printable, shortened
from extender.domain.translation import forms
from extender.domain.translation.annotation_table import (
    BY_BRIDGE_NAME,
    BY_NAME,
    BY_SUNK_NAME,
    SUNK_NOT_SETTINGS,
    TIME_LIMIT,
    Setting,
)
from extender.domain.translation.forms import Form
from extender.domain.translation.hostnames import HostnamesError
from extender.domain.translation.notice import Notice

T = TypeVar("T")

LONGEST_VALUE = 4096
"""Characters of one value that any form may read. No setting needs more: slurmctld stores 1024 bytes of a text."""

MOST_FAULTS = 20
"""Faults that are described; how many more there are is one sentence."""

MOST_NAMED = 5
"""Unknown keys that a notice names."""

LONGEST_KEY = 63
"""Characters of a key's name that are shown and compared with the known ones: what Kubernetes allows for a name."""


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One value of a setting, and where it was found."""

    key: str
    text: str
    value: Any


@dataclass(frozen=True, slots=True)
class Chosen:
    """The settings of a Pod: name of the setting -> what was given. Only values of the setting's own form are in it."""

    given: Mapping[str, SettingValue]

    def get(self, setting: Setting[T]) -> T | None:
        """Return the value; `None`: the annotation is absent."""
        found = self.given.get(setting.name)
        return None if found is None else found.value

    def says(self, setting: Setting[Any]) -> str:
        """Return `key: "value"` as found, to begin a sentence about it."""
        found = self.given[setting.name]
        return f"{found.key}: {_quoted(found.text)}"


@dataclass(frozen=True, slots=True)
class Reading:
    """The settings that were read. `faults` make the Pod impossible to translate, `notices` do not."""

    chosen: Chosen
    faults: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()


def read_settings(
    annotations: Mapping[str, str], root_annotations: Mapping[str, str], policy: TranslationPolicy
) -> Reading:
    """Return all settings, faults and notices, in the order of the keys. `root_annotations` may be the Pod's own."""
    given: dict[str, SettingValue] = {}
    faults: list[str] = []
    notices: list[Notice] = []

    unknown: list[str] = []

    def take(key: str, text: str, setting: Setting[Any], form: Form[Any]) -> None:
        if len(text) > LONGEST_VALUE:
            faults.append(f"{key}: the value has more than {LONGEST_VALUE} characters; shorten it ({form.allowed})")
            return
        try:
            found = SettingValue(key, text.strip(), form.read(text.strip()))
        except ValueError as why:
            detail = f" ({why})" if isinstance(why, HostnamesError) else ""
            faults.append(f"{key}: {_quoted(text)} is not allowed; it must be {form.allowed}{detail}")
            return
        other = given.setdefault(setting.name, found)
        if other.value != found.value:
            faults.append(
                f"{key}: {_quoted(found.text)} contradicts {other.key}: {_quoted(other.text)}; "
                "they are one setting and must have one value"
            )

    for key, text in _under(wellknown.OWN_PREFIX, annotations):
        name = key.removeprefix(wellknown.OWN_PREFIX)
        if key == wellknown.OPT_OUT:
            continue  # it is for admission, and means nothing on a Pod that names the scheduler
        if name not in BY_NAME:
            faults.append(_no_such_setting(name) if len(faults) < MOST_FAULTS else "")
        elif text.strip():
            take(key, text, BY_NAME[name], BY_NAME[name].form)

    def foreign(prefix: str, found: Mapping[str, str], known: Mapping[str, Setting[Any]], form: _FormOf) -> None:
        for key, text in _under(prefix, found):
            name = key.removeprefix(prefix)
            if name in known:
                if text.strip():
                    take(key, text, known[name], form(known[name]))
            elif not (prefix == wellknown.SUNK_PREFIX and name in SUNK_NOT_SETTINGS):
                unknown.append(prefix + _shown_name(name))

    foreign(wellknown.SUNK_PREFIX, annotations, BY_SUNK_NAME, lambda s: _sunk_form(s, policy.sunk_timeout_unit))
    foreign(wellknown.BRIDGE_PREFIX, {**root_annotations, **annotations}, BY_BRIDGE_NAME, lambda s: s.form)
    if unknown:
        notices.append(Notice(wellknown.Reason.UNKNOWN_SLURM_SETTING, _without_effect(unknown)))
    return Reading(Chosen(given), _first(faults), tuple(notices))


def _sunk_form(setting: Setting[Any], unit: TimeoutUnit) -> Form[Any]:
    """Return the form of a value under SUNK's prefix: the setting's own, but for the unit of the time limit."""
    return forms.SECONDS_AS_MINUTES if setting is TIME_LIMIT and unit is TimeoutUnit.SECONDS else setting.form


def _first(faults: list[str]) -> tuple[str, ...]:
    """Return the first faults, and in one more sentence how many there are besides."""
    if len(faults) <= MOST_FAULTS:
        return tuple(faults)
    more = f"{len(faults) - MOST_FAULTS} more annotations are wrong; correct these first"
    return (*faults[:MOST_FAULTS], more)


def _no_such_setting(name: str) -> str:
    near = get_close_matches(name, BY_NAME, 1) if len(name) <= LONGEST_KEY else []
    near_name = f"did you mean {wellknown.OWN_PREFIX}{near[0]}?" if near else ""
    hint = near_name or "docs/reference/annotations.md lists all settings"
    return f"{wellknown.OWN_PREFIX}{_shown_name(name)}: there is no such setting; {hint}"


def _without_effect(keys: list[str]) -> str:
    """Return one sentence about every unknown key of a peer: one Event, however many there are."""
    if len(keys) == 1:
        return f"{keys[0]} is unknown and has no effect"
    return f"{shortened(keys, MOST_NAMED)} are unknown and have no effect"


def _shown_name(name: str) -> str:
    return printable(name if len(name) <= LONGEST_KEY else name[: LONGEST_KEY - 3] + "...")


_FormOf = Callable[[Setting[Any]], Form[Any]]


def _under(prefix: str, annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(item for item in annotations.items() if item[0].startswith(prefix))


def _quoted(text: str) -> str:
    """Return at most 80 characters in quotes, with what cannot be printed as escapes: a line stays one line."""
    return f'"{printable(text if len(text) <= 80 else text[:77] + "...")}"'
