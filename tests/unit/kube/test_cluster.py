"""The identity of a cluster."""

from __future__ import annotations

import pytest

from extender.kube.cluster import cluster_id
from extender.kube.errors import ApiUnavailable
from tests.builders.fake_api import fake_api

pytestmark = pytest.mark.looptime


async def test_it_is_the_uid_of_kube_system() -> None:
    async with fake_api() as api:
        namespaces = {"kube-system": await cluster_id(api.connection)}
        assert namespaces["kube-system"].startswith("00000000-0000-4000-8000-")


async def test_an_api_server_that_cannot_be_reached_is_an_error() -> None:
    async with fake_api() as api:
        api.refuse()
        with pytest.raises(ApiUnavailable):
            await cluster_id(api.connection)
