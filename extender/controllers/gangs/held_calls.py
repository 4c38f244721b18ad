"""Keep the calls of `/bind` that are held, each until it is answered; the oldest one is first."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class HeldCall:
    """A call of `/bind` for a member of a workload of a namespace, which is held since `at`."""

    namespace: str
    key: str
    uid: str
    at: float
    answer: asyncio.Future[str]


class HeldCalls:
    """The calls that are held, by workload and member.

    `most`: how many there may be. Each has a connection of kube-scheduler, and `/filter` must have some left.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, dict[str, HeldCall]] = {}
        self._by_age: OrderedDict[HeldCall, None] = OrderedDict()

    def open(self, namespace: str, key: str, uid: str, now: float) -> HeldCall:
        """Add a call; an earlier one of the same member is answered."""
        self.answer(key, uid, "another call for the same Pod came later")
        call = HeldCall(namespace, key, uid, now, asyncio.get_running_loop().create_future())
        self._of.setdefault(key, {})[uid] = call
        self._by_age[call] = None
        return call

    def close(self, call: HeldCall) -> None:
        """Remove a call that has been answered, or that its client has cut."""
        self._by_age.pop(call, None)
        calls = self._of.get(call.key, {})
        if calls.get(call.uid) is call:
            del calls[call.uid]
        if not calls:
            self._of.pop(call.key, None)

    def get(self, key: str, uid: str) -> HeldCall | None:
        """Return the call of a member; `None`: none is held."""
        return self._of.get(key, {}).get(uid)

    def answer(self, key: str, uid: str, text: str) -> None:
        """Answer the call of a member, if one is held."""
        call = self.get(key, uid)
        if call is not None and not call.answer.done():
            call.answer.set_result(text)

    def members(self, key: str) -> tuple[str, ...]:
        """Return the members of a workload whose calls are held, by UID."""
        return tuple(self._of.get(key, ()))

    def all(self) -> Iterable[HeldCall]:
        """Return every call, the oldest first."""
        return tuple(self._by_age)

    def excess(self, may_end: Callable[[HeldCall], bool]) -> HeldCall | None:
        """Return the oldest call that may end of the namespace that holds the most, if there are too many calls."""
        if len(self._by_age) <= self._most:
            return None
        held = [call for call in self._by_age if not call.answer.done()]
        shares = Counter(call.namespace for call in held)
        longest = max(shares, key=shares.__getitem__, default="")
        return next((call for call in held if call.namespace == longest and may_end(call)), None)
