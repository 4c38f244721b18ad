"""The whole process in memory, on virtual time; nothing of the extender is called directly."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.builders.process_site import Site, a_site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with a_site() as one:
        yield one
