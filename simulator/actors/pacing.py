"""Call a function at random intervals."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable


async def repeat_at_random(
    rng: random.Random, every_s: float, act: Callable[[], object], stopped: Callable[[], bool]
) -> None:
    """Call `act` at random intervals with the mean `every_s` until cancelled; skip it while `stopped`."""
    while True:
        await asyncio.sleep(rng.expovariate(1 / every_s))
        if not stopped():
            act()
