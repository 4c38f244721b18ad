"""Reads the configuration: the file, the environment and the flags become one checked document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError, Origin, fault_text
from extender.config.override import Overrides, laid_over
from extender.config.yaml_text import YamlFault, read_yaml
from extender.domain.wellknown import CONFIG_API_VERSION, CONFIG_KIND


def load(file: Path | None, overrides: Overrides = Overrides()) -> ExtenderConfiguration:  # noqa: B008 - immutable
    """Read `file`, or begin with nothing, and lay the overrides over it.

    Raises ConfigError with everything that is wrong.
    """
    if file is None:
        return check({"apiVersion": CONFIG_API_VERSION, "kind": CONFIG_KIND}, Origin(), overrides)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}"]) from error
    return parse(text, str(file), overrides)


def parse(text: str, name: str, overrides: Overrides = Overrides()) -> ExtenderConfiguration:  # noqa: B008 - immutable
    """The same for text; `name` stands for it in faults.

    Raises ConfigError.
    """
    try:
        read = read_yaml(text)
    except YamlFault as error:
        raise ConfigError([f"{name}, {error}", *overrides.faults]) from error
    if not isinstance(read.value, dict):
        raise ConfigError([f"{name}: it must be a map with apiVersion, kind and slurm", *overrides.faults])
    return check(read.value, Origin(name, read.lines), overrides)


def check(document: dict[str, Any], origin: Origin, overrides: Overrides) -> ExtenderConfiguration:
    """Lay the overrides over `document` and hold it to the model.

    Raises ConfigError.
    """
    whole = laid_over(document, overrides)
    sources: Mapping[tuple[str | int, ...], str] = {tuple(one.path): one.source for one in overrides.values}
    told = Origin(origin.file, origin.lines, sources)
    try:
        # By way of JSON: its strict mode takes a list for a tuple and text for a closed set, but no number for text.
        configuration = ExtenderConfiguration.model_validate_json(
            json.dumps(whole, allow_nan=False), strict=True, by_alias=True, by_name=False
        )
    except ValidationError as error:
        errors = sorted(error.errors(include_url=False), key=lambda one: told.line(tuple(one["loc"])))
        # pydantic also finds a list too short whose items are wrong: one of the two is enough.
        inside = {one["loc"][:-1] for one in errors}
        said = [fault_text(one, told) for one in errors if one["type"] != "too_short" or one["loc"] not in inside]
        raise ConfigError([*overrides.faults, *dict.fromkeys(said)]) from error
    except ValueError as error:  # .inf and .nan, which JSON has not
        raise ConfigError(
            [*overrides.faults, f"{origin.file}: a number is infinite or none at all: {error}"]
        ) from error
    if overrides.faults:
        raise ConfigError(overrides.faults)
    return configuration
