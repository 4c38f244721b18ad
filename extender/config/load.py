"""Reads the configuration: the file, the environment and the flags become one checked document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError, Origin, fault_text
from extender.config.keys import CONFIGURATION, KeyBook
from extender.config.override import Overrides, laid_over
from extender.config.values import Group
from extender.config.yaml_text import YamlFault, read_yaml
from extender.domain.wellknown import CONFIG_API_VERSION, CONFIG_KIND


def load(file: Path | None, overrides: Overrides = Overrides()) -> ExtenderConfiguration:  # noqa: B008 - immutable
    """Read `file`, or begin with nothing, and lay the overrides over it.

    Raises ConfigError with everything that is wrong.
    """
    if file is None:
        return check({"apiVersion": CONFIG_API_VERSION, "kind": CONFIG_KIND}, Origin(), overrides)
    return parse(text_of(file), str(file), overrides)


def text_of(file: Path) -> str:
    """What a file holds.

    Raises ConfigError.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}"]) from error


def parse(text: str, name: str, overrides: Overrides = Overrides()) -> ExtenderConfiguration:  # noqa: B008 - immutable
    """The same for text; `name` stands for it in faults.

    Raises ConfigError.
    """
    try:
        document, origin = read_map(text, name, "apiVersion, kind and slurm")
    except ConfigError as error:
        raise ConfigError([*error.faults, *overrides.faults]) from error
    return check(document, origin, overrides)


def read_map(text: str, name: str, keys: str) -> tuple[dict[str, Any], Origin]:
    """A YAML document that is a map, with `keys`, and where its values stand.

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
    """The same for any kind of document.

    Raises ConfigError.
    """
    whole = laid_over(document, overrides)
    sources: Mapping[tuple[str | int, ...], str] = {tuple(one.path): one.source for one in overrides.values}
    told = Origin(origin.file, origin.lines, sources)
    try:
        # By way of JSON: its strict mode takes a list for a tuple and text for a closed set, but no number for text.
        found = model.model_validate_json(json.dumps(whole, allow_nan=False), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        errors = sorted(error.errors(include_url=False), key=lambda one: told.line(tuple(one["loc"])))
        # pydantic also finds a list too short whose items are wrong: one of the two is enough.
        inside = {one["loc"][:-1] for one in errors}
        said = [fault_text(one, told, book) for one in errors if one["type"] != "too_short" or one["loc"] not in inside]
        raise ConfigError([*overrides.faults, *dict.fromkeys(said)]) from error
    except ValueError as error:  # .inf and .nan, which JSON has not
        raise ConfigError(
            [*overrides.faults, f"{origin.file}: a number is infinite or none at all: {error}"]
        ) from error
    if overrides.faults:
        raise ConfigError(overrides.faults)
    return found
