"""How often somebody does something."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable


async def repeat_at_random(
    rng: random.Random, every_s: float, act: Callable[[], object], stopped: Callable[[], bool]
) -> None:
    """Act about every `every_s` seconds, each time after another while, until cancelled; not while `stopped`."""
    while True:
        await asyncio.sleep(rng.expovariate(1 / every_s))
        if not stopped():
            act()
