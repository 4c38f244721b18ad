"""Values that a job gets where its Pod gives none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from extender.domain.translation.annotation_table import GROUP_ID, USER_ID, Setting

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """The values that the site, a namespace, a rule or a PriorityClass gives a job; only what is given is in it.

    Each is what the form of its setting reads.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    """By the name of the setting."""

    def get(self, setting: Setting[T]) -> T | None:
        """Return the default of a setting; `None`: none is given."""
        return self.values.get(setting.name)

    def having(self, setting: Setting[T], value: T | None) -> JobDefaults:
        """Return these defaults and one more; `None` and "" give none."""
        return self if value is None or value == "" else JobDefaults({**self.values, setting.name: value})

    def under(self, own: JobDefaults) -> JobDefaults:
        """Return `own`, completed by these. A group belongs to its user: that of another user is not completed."""
        completed = dict(self.values)
        if own.get(USER_ID) is not None:
            completed.pop(GROUP_ID.name, None)
        return JobDefaults({**completed, **own.values})
