"""What is simulated runs on the simulator's own loop, where it is on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.builders.jumping_loop import JumpingLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """One for each test, so that no name of a test tells it."""
    virtual = item.get_closest_marker("looptime") is not None
    return {"virtual": JumpingLoop} if virtual else {"real": asyncio.new_event_loop}
