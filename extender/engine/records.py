"""What those who carry commands out need of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from extender.domain import events as e
from extender.engine.author import Author
from extender.engine.partitions import Partitions
from extender.engine.queue import Queue
from extender.engine.readings import Readings
from extender.engine.remarks import Remarks
from extender.engine.units import Units
from extender.engine.vanishing import Vanishing
from extender.engine.world import World


class Records(Protocol):
    """What is known, and whom to tell."""

    world: World
    units: Units
    author: Author
    partitions: Partitions
    vanishing: Vanishing
    readings: Readings
    remarks: Remarks
    queue: Queue
    elsewhere: Callable[[str], bool]

    def handle(self, key: str, event: e.Event, cause: str) -> None:
        """Tell a unit what happened."""
