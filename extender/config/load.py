"""Reads the configuration: the file, the environment and the flags become one checked document.

`SLURM_EXTENDER__SLURM__KILL_WAIT=60s` sets `slurm.killWait`. The double underscore keeps these variables apart from
those that Kubernetes makes for a Service called slurm-extender (`SLURM_EXTENDER_PORT` ...) and from those of the
placeholder script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError, Origin, fault_text, nearest, unknown_path
from extender.config.schema_keys import CONFIGURATION, EACH, Key, KeyBook, KeyPath, keys
from extender.config.values import Group
from extender.config.yaml_text import YamlFault, read_scalar, read_yaml
from extender.domain.wellknown import CONFIG_API_VERSION, CONFIG_KIND

ENVIRONMENT_PREFIX = "SLURM_EXTENDER__"


@dataclass(frozen=True, slots=True)
class Override:
    """One value for one key, and who says so: `--slurm-kill-wait`, `environment SLURM_EXTENDER__...`."""

    path: KeyPath
    value: Any
    source: str
    weak: bool = False
    """It gives way to any other value of this key."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """Values in rising precedence, and faults of those that cannot be understood."""

    values: tuple[Override, ...] = ()
    faults: tuple[str, ...] = ()

    def __add__(self, other: Overrides) -> Overrides:
        """Return the overrides of both; those of `other` win."""
        return Overrides(self.values + other.values, self.faults + other.faults)


def variable(key: Key) -> str:
    """Return the environment variable of a key."""
    return ENVIRONMENT_PREFIX + "__".join(re.sub(r"([A-Z])", r"_\1", part).upper() for part in key.path)


def settable() -> list[Key]:
    """Return the keys that one variable or flag can set: those that hold a value and stand in no list or map."""
    return [key for key in keys().values() if not key.group and EACH not in key.path]


def from_environment(environ: Mapping[str, str]) -> Overrides:
    """Return the value of every variable with the prefix of the extender."""
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
    """Parse `slurm.killWait=60s`, as `--set` takes it."""
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


def with_overrides(document: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
    """Return a copy of `document` with the overrides in it. A value where a group should be gives way."""
    result = dict(document)
    for override in overrides.values:
        if override.weak and _has(result, override.path):
            continue
        level = result
        for part in override.path[:-1]:
            inner = level.get(part)
            level[part] = dict(inner) if isinstance(inner, dict) else {}
            level = level[part]
        level[override.path[-1]] = override.value
    return result


def _has(document: Mapping[str, Any], path: KeyPath) -> bool:
    level: Any = document
    for part in path:
        if not isinstance(level, Mapping) or part not in level:
            return False
        level = level[part]
    return True


def _read(key: Key, text: str) -> Any:
    """Read text as YAML (`[a, b]`, `true`, `5`), but keep it as text for keys of text."""
    if key.nullable and text == "null":
        return None
    return text if key.text else read_scalar(text)


def load(file: Path | None, overrides: Overrides = Overrides()) -> ExtenderConfiguration:
    """Read `file`, or begin with nothing, and lay the overrides over it.

    Raises ConfigError with everything that is wrong.
    """
    if file is None:
        return check({"apiVersion": CONFIG_API_VERSION, "kind": CONFIG_KIND}, Origin(), overrides)
    return parse(text_of(file), str(file), overrides)


def text_of(file: Path) -> str:
    """Return the text of a file.

    Raises ConfigError.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}"]) from error


def parse(text: str, name: str, overrides: Overrides = Overrides()) -> ExtenderConfiguration:
    """Read text as `load` reads a file; `name` stands for it in faults.

    Raises ConfigError.
    """
    try:
        document, origin = read_map(text, name, "apiVersion, kind and slurm")
    except ConfigError as error:
        raise ConfigError([*error.faults, *overrides.faults]) from error
    return check(document, origin, overrides)


def read_map(text: str, name: str, keys: str) -> tuple[dict[str, Any], Origin]:
    """Read a YAML document that is a map, with `keys`; return it, and where its values stand.

    Raises ConfigError.
    """
    try:
        read = read_yaml(text)
    except YamlFault as error:
        raise ConfigError([f"{name}, {error}"]) from error
    if not isinstance(read.value, dict):
        raise ConfigError([f"{name}: it must be a map with {keys}"])
    return read.value, Origin(name, read.lines)


def check(document: dict[str, Any], origin: Origin, overrides: Overrides) -> ExtenderConfiguration:
    """Lay the overrides over `document` and hold it to the model.

    Raises ConfigError.
    """
    return held_to(ExtenderConfiguration, CONFIGURATION, document, origin, overrides)


ModelT = TypeVar("ModelT", bound=Group)


def held_to(
    model: type[ModelT], book: KeyBook, document: dict[str, Any], origin: Origin, overrides: Overrides
) -> ModelT:
    """Check a document of any kind in the same way.

    Raises ConfigError.
    """
    whole = with_overrides(document, overrides)
    sources: Mapping[tuple[str | int, ...], str] = {tuple(one.path): one.source for one in overrides.values}
    places = Origin(origin.file, origin.lines, sources)
    try:
        # By way of JSON: its strict mode takes a list for a tuple and text for a closed set, but no number for text.
        found = model.model_validate_json(json.dumps(whole, allow_nan=False), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        errors = sorted(error.errors(include_url=False), key=lambda one: places.line(tuple(one["loc"])))
        # pydantic also finds a list too short whose items are wrong: one of the two is enough.
        inside = {one["loc"][:-1] for one in errors}
        fault_texts = [
            fault_text(one, places, book) for one in errors if one["type"] != "too_short" or one["loc"] not in inside
        ]
        raise ConfigError([*overrides.faults, *dict.fromkeys(fault_texts)]) from error
    except ValueError as error:  # .inf and .nan, which JSON has not
        raise ConfigError(
            [*overrides.faults, f"{origin.file}: a number is infinite or none at all: {error}"]
        ) from error
    if overrides.faults:
        raise ConfigError(overrides.faults)
    return found
