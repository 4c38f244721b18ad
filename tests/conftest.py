"""What every test needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lab.build_slurm import RELEASES


@pytest.fixture(scope="session", autouse=True)
def _loop_between_tests() -> Iterator[None]:
    """A loop of the main thread that is closed at the end.

    Before its own loop pytest-asyncio asks for the one there is, to put it back later. Up to Python 3.13 the question
    makes one, which nobody closes, and some test is blamed for it whenever it happens to be collected.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two runs of the real parts side by side (`make e2e`): whatever uses one release of Slurm stays in one process.

    So each cluster is started once, and tests that count what a cluster holds have it for themselves.
    """
    for item in items:
        if item.get_closest_marker("lab"):
            item.add_marker(pytest.mark.xdist_group(_real_part(item.nodeid)))


def _real_part(nodeid: str) -> str:
    if nodeid.startswith("tests/lab/"):
        return "lab"
    return next((release for release in RELEASES if release in nodeid), "kubernetes")
