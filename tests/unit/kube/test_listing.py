"""A list is read in pages of bounded size, however large its objects are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.domain.views import PodView
from extender.kube.answers import ResponseLimits
from extender.kube.errors import AnswerTooLong
from extender.kube.listing import list_all
from extender.kube.wire.stream import POD
from tests.builders.fake_api import FakeApi, fake_api

pytestmark = pytest.mark.looptime

PATH = "/api/v1/pods"
LIMIT = 200_000
"""Bytes of a page, more than 100 small Pods have."""


@asynccontextmanager
async def an_api() -> AsyncIterator[FakeApi]:
    async with fake_api(bounds=ResponseLimits(page=LIMIT)) as api:
        yield api


async def names(api: FakeApi) -> list[str]:
    found = await list_all(api.connection, PATH, POD, lambda view: view)
    assert not found.unreadable
    return [view.name for view in found.views]


def add(api: FakeApi, first: int, count: int, size: int = 0) -> None:
    for number in range(first, first + count):
        api.server.add_pod(f"p{number:04}", annotations={"example.com/a": "<" * size})


def limits(api: FakeApi) -> list[int]:
    return [int(request.query["limit"]) for request in api.server.requests]


async def test_a_list_of_small_objects_has_pages_of_one_hundred() -> None:
    async with an_api() as api:
        add(api, 0, 250)
        assert len(await names(api)) == 250
        assert limits(api) == [100, 100, 100]


@pytest.mark.parametrize("at", [0, 150, 240])
async def test_objects_that_are_too_large_for_one_page_are_listed_in_smaller_ones(at: int) -> None:
    async with an_api() as api:
        add(api, 0, at)
        add(api, at, 10, LIMIT * 2 // 3)
        add(api, at + 10, 240 - at)
        assert await names(api) == [f"p{number:04}" for number in range(250)]
        assert 1 in limits(api)
        assert len(limits(api)) < 50


async def test_pages_grow_again_behind_large_objects() -> None:
    async with an_api() as api:
        add(api, 0, 3, LIMIT * 2 // 3)
        add(api, 3, 400)
        assert len(await names(api)) == 403
        assert limits(api)[-2:] == [100, 100]


async def test_a_page_that_is_too_long_does_not_end_the_snapshot() -> None:
    async with an_api() as api:
        add(api, 0, 100)
        add(api, 100, 10, LIMIT * 2 // 3)
        version = str(api.server.storage.version)

        def keep(view: PodView) -> PodView:
            if view.name == "p0000":
                api.server.add_pod("p9999")
            return view

        found = await list_all(api.connection, PATH, POD, keep)
        assert [view.name for view in found.views] == [f"p{number:04}" for number in range(110)]
        assert found.resource_version == version


async def test_an_object_that_is_too_large_for_any_page_is_an_error_that_says_which() -> None:
    async with an_api() as api:
        add(api, 0, 120)
        add(api, 120, 1, 2 * LIMIT)
        with pytest.raises(
            AnswerTooLong, match=f"object 121 of the list alone: GET {PATH}: .* more than {LIMIT} bytes"
        ):
            await names(api)
        assert len(limits(api)) < 50
