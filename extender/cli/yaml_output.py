"""Print any values as readable YAML."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import Any

import yaml


def as_yaml(value: Any) -> str:
    """Return a document, no line of it folded."""
    # By way of JSON: closed sets become their words.
    plain = json.loads(json.dumps(value, default=_plain))
    for as_it_is in (True, False):  # what cannot be seen is written as its escape
        text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=as_it_is, width=10**6)  # no folding
        if text.replace("\n", "").isprintable():
            break
    return text


def _plain(value: Any) -> Any:
    """Convert values that JSON has no form for: a user with a group, a read-only map."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else dict(value)
