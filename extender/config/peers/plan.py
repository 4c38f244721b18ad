"""A configuration in the making: keys that were taken over, and notes about those that were not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from extender.config.faults import ConfigError, Origin
from extender.config.load import Override, Overrides, check, with_overrides
from extender.config.schema_keys import KeyPath
from extender.domain.wellknown import CONFIG_API_VERSION, CONFIG_KIND

TOKEN_FILE = "/etc/slurm-extender/secret/token"  # noqa: S105 - a place, not a secret
"""Path at which the shipped Deployment mounts it."""

KEY_FILE = "/etc/slurm-extender/secret/hooks-key"
"""Likewise; the extender does not serve without it."""


@dataclass(frozen=True, slots=True)
class TokenSecret:
    """Name a Secret with the token of Slurm, and the key in it. Namespace "": not known."""

    name: str
    key: str
    namespace: str = ""


@dataclass(slots=True)
class ImportPlan:
    """`document` is good at any time, once it names a token; `notes` are lines for the administrator."""

    document: dict[str, Any] = field(
        default_factory=lambda: {
            "apiVersion": CONFIG_API_VERSION,
            "kind": CONFIG_KIND,
            "slurm": {"tokenFile": TOKEN_FILE},
            "http": {"bind": ":8080"},
            "hooks": {"keyFile": KEY_FILE, "bind": ":8000"},
            "observability": {"healthBind": ":8081", "metricsBind": ":8082"},
        }
    )
    """It has the listeners of the shipped manifests from the start."""

    token_secret: TokenSecret | None = None
    """Where the peer has its token."""

    notes: list[str] = field(default_factory=list)

    def put(self, path: KeyPath, value: Any, source: str) -> None:
        """Take a value over. One that cannot be used is a note, and so is a second one for the same key."""
        dotted = ".".join(path)
        before = self._at(path)
        if before is not None and before != value:
            self.note(source, f"{dotted} is {before!r} already, by what was read before")
            return
        tried = with_overrides(self.document, Overrides((Override(path, value, source),)))
        try:
            check(tried, Origin(), Overrides((Override(path, value, source),)))
        except ConfigError as error:
            self.note(source, f"cannot be used as {dotted}: {'; '.join(error.faults)}")
            return
        self.document = tried

    def note(self, key: str, why: str) -> None:
        """Note a key of the peer that was not taken over, or not as it is."""
        line = f"{key}: {why}"
        if line not in self.notes:
            self.notes.append(line)

    def map(self, value: Any, source: str) -> dict[str, Any]:
        """Return `value` where it is a map, else an empty map; note any other value except null as not taken over."""
        if isinstance(value, dict):
            return value
        if value is not None:
            self.note(source, f"{value!r:.60} is no map")
        return {}

    def _at(self, path: KeyPath) -> Any:
        level: Any = self.document
        for part in path:
            level = level.get(part) if isinstance(level, dict) else None
        return level
