"""Find gangs that have one name and are not the same, since their Pods differ in owner or Slurm tenant."""

from __future__ import annotations

from extender.domain.gangs.membership import SHARED_NAMES, Membership

OTHERS = "Pods of another owner, Slurm user, account or QOS that name it are counted separately."
"""Names none of them: their authors may be other users of the namespace."""


class SharedNames:
    """The keys of the gangs that share a name which any author in the namespace can write."""

    def __init__(self) -> None:
        self._name_of: dict[str, tuple[str, ...]] = {}
        self._keys: dict[tuple[str, ...], set[str]] = {}

    def add(self, key: str, membership: Membership) -> None:
        """Add a gang by what one of its Pods says."""
        if membership.source in SHARED_NAMES and key not in self._name_of:
            beside_owner = membership.incarnation[1:]
            name = self._name_of[key] = (membership.source, membership.namespace, *beside_owner)
            self._keys.setdefault(name, set()).add(key)

    def remove(self, key: str) -> None:
        """Remove a gang that has no Pod any more."""
        name = self._name_of.pop(key, None)
        if name is not None:
            self._keys[name].discard(key)
            if not self._keys[name]:
                del self._keys[name]

    def note(self, key: str) -> str:
        """Return that another gang has the name of this one, as a sentence; "" if none has."""
        name = self._name_of.get(key)
        return OTHERS if name is not None and len(self._keys[name]) > 1 else ""
