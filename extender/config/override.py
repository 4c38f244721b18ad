"""Environment and flags, laid over the document.

`SLURM_EXTENDER__SLURM__KILL_WAIT=60s` sets `slurm.killWait`. The double underscore keeps these apart from the variables
that Kubernetes makes for a Service called slurm-extender (`SLURM_EXTENDER_PORT` ...) and from those of the placeholder
script.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from extender.config.faults import nearest, unknown_path
from extender.config.keys import EACH, Key, Path, keys
from extender.config.yaml_text import read_scalar

ENVIRONMENT_PREFIX = "SLURM_EXTENDER__"


@dataclass(frozen=True, slots=True)
class Override:
    """One value for one key, and who says so: `--slurm-kill-wait`, `environment SLURM_EXTENDER__...`."""

    path: Path
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Overrides:
    """What was said, in rising precedence, and what of it cannot be understood."""

    values: tuple[Override, ...] = ()
    faults: tuple[str, ...] = ()

    def __add__(self, other: Overrides) -> Overrides:
        """`other` goes before this."""
        return Overrides(self.values + other.values, self.faults + other.faults)


def variable(key: Key) -> str:
    """The environment variable of a key."""
    return ENVIRONMENT_PREFIX + "__".join(re.sub(r"([A-Z])", r"_\1", part).upper() for part in key.path)


def settable() -> list[Key]:
    """The keys that one variable or flag can set: those that hold a value and stand in no list or map."""
    return [key for key in keys().values() if not key.group and EACH not in key.path]


def from_environment(environ: Mapping[str, str]) -> Overrides:
    """Every variable with our prefix."""
    by_variable = {variable(key): key for key in settable()}
    values, faults = [], []
    for name in sorted(environ):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        source = f"environment {name}"
        key = by_variable.get(name)
        if key is None:
            faults.append(f"{source}: no such key{nearest(name, list(by_variable))}")
        else:
            values.append(Override(key.path, _read(key, environ[name]), source))
    return Overrides(tuple(values), tuple(faults))


def from_settings(settings: Iterable[str]) -> Overrides:
    """`slurm.killWait=60s`, as `--set` takes it."""
    by_path = {key.dotted: key for key in settable()}
    values, faults = [], []
    for setting in settings:
        path, equals, text = setting.partition("=")
        source = f"--set {path}"
        key = by_path.get(path)
        if not equals:
            faults.append(f"--set {setting}: it must read key=value, such as slurm.killWait=60s")
        elif key is None:
            faults.append(f"--set {unknown_path(path)}")
        else:
            values.append(Override(key.path, _read(key, text), source))
    return Overrides(tuple(values), tuple(faults))


def laid_over(document: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
    """A copy of `document` with the overrides in it. A value where a group should be gives way."""
    result = dict(document)
    for override in overrides.values:
        level = result
        for part in override.path[:-1]:
            inner = level.get(part)
            level[part] = dict(inner) if isinstance(inner, dict) else {}
            level = level[part]
        level[override.path[-1]] = override.value
    return result


def _read(key: Key, text: str) -> Any:
    """Text stays text for keys that want it; everything else is read as YAML (`[a, b]`, `true`, `5`)."""
    if key.nullable and text == "null":
        return None
    return text if key.text else read_scalar(text)
