"""Whether some extender is there and ready: while none is, the cluster is not calm."""

from __future__ import annotations

from simulator.calm import Calm
from simulator.diary import Diary

ABSENT = "no extender"


class Presence:
    """Tells the calm and the diary of each change; one is taken to be there at first."""

    def __init__(self, calm: Calm, diary: Diary) -> None:
        self._calm = calm
        self._diary = diary
        self._here = True

    def is_here(self, here: bool) -> None:
        """What is so now."""
        if here == self._here:
            return
        self._here = here
        if here:
            self._calm.end(ABSENT)
            self._diary.add("the extender is ready")
        else:
            self._calm.begin(ABSENT)
