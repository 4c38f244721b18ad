"""Reads the settings of one Pod from its annotations and those of its root owner.

Under one prefix the Pod goes before its owner. Under two prefixes the values must mean the same. An empty value says
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from extender.domain import wellknown
from extender.domain.policy.site import TranslationPolicy
from extender.domain.translation.forms import Form
from extender.domain.translation.hostnames import HostlistError
from extender.domain.translation.notice import Notice
from extender.domain.translation.settings import (
    BY_BRIDGE_NAME,
    BY_NAME,
    BY_SUNK_NAME,
    SUNK_NOT_SETTINGS,
    Setting,
    sunk_form,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Given:
    """One value of a setting, and where it was found."""

    key: str
    text: str
    value: Any


@dataclass(frozen=True, slots=True)
class Chosen:
    """The settings of a Pod: name of the setting -> what was given. Only values of the setting's own form are in it."""

    given: Mapping[str, Given]

    def get(self, setting: Setting[T]) -> T | None:
        """The value, `None` where nothing was said."""
        found = self.given.get(setting.name)
        return None if found is None else found.value

    def says(self, setting: Setting[Any]) -> str:
        """`key: "value"` as found, to begin a sentence about it."""
        found = self.given[setting.name]
        return f"{found.key}: {_quoted(found.text)}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading: `faults` make the Pod impossible to translate, `notices` do not."""

    chosen: Chosen
    faults: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()


def read_settings(
    annotations: Mapping[str, str], root_annotations: Mapping[str, str], policy: TranslationPolicy
) -> Reading:
    """All settings, every fault and every notice, in the order of the keys. `root_annotations` may be the Pod's own."""
    given: dict[str, Given] = {}
    faults: list[str] = []
    notices: list[Notice] = []

    def take(key: str, text: str, setting: Setting[Any], form: Form[Any]) -> None:
        try:
            found = Given(key, text.strip(), form.read(text.strip()))
        except ValueError as why:
            detail = f" ({why})" if isinstance(why, HostlistError) else ""
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
        if key in wellknown.WRITTEN_BY_US:
            continue
        if name not in BY_NAME:
            near = get_close_matches(name, BY_NAME, 1)
            hint = (
                f"did you mean {wellknown.OWN_PREFIX}{near[0]}?"
                if near
                else "docs/annotations.md lists those there are"
            )
            faults.append(f"{key}: there is no such setting; {hint}")
        elif text.strip():
            take(key, text, BY_NAME[name], BY_NAME[name].form)

    def foreign(prefix: str, found: Mapping[str, str], known: Mapping[str, Setting[Any]], form: _FormOf) -> None:
        for key, text in _under(prefix, found):
            name = key.removeprefix(prefix)
            if name in known:
                if text.strip():
                    take(key, text, known[name], form(known[name]))
            elif not (prefix == wellknown.SUNK_PREFIX and name in SUNK_NOT_SETTINGS):
                notices.append(Notice(wellknown.Reason.UNKNOWN_SETTING, f"{key} is not known here and has no effect"))

    foreign(wellknown.SUNK_PREFIX, annotations, BY_SUNK_NAME, lambda s: sunk_form(s, policy.sunk_timeout_unit))
    foreign(wellknown.BRIDGE_PREFIX, {**root_annotations, **annotations}, BY_BRIDGE_NAME, lambda s: s.form)
    return Reading(Chosen(given), tuple(faults), tuple(notices))


_FormOf = Callable[[Setting[Any]], Form[Any]]


def _under(prefix: str, annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(item for item in annotations.items() if item[0].startswith(prefix))


def _quoted(text: str) -> str:
    shown = text if len(text) <= 80 else text[:77] + "..."
    if not shown.isprintable():  # an Event and a log line stay one line
        shown = shown.encode("unicode_escape").decode()
    return f'"{shown}"'
