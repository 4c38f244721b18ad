"""kube-scheduler is killed at the steps of a gang: the gang is whole afterwards, on the job that it had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lab.site import Site
from tests.builders.gang_crashes import OPEN_GATE, SETTLED_S, SIZE, assert_whole, voted
from tests.builders.relay import RequestLimit
from tests.builders.relays_of_a_site import RelayPair, relays
from tests.builders.stage import Stage
from tests.builders.staged_gangs import assert_none_bound, gang

pytestmark = pytest.mark.slow

each_mode = pytest.mark.modes("batch", "allocation", "external")


@pytest.fixture(scope="module")
def relay_pair(site: Site) -> Iterator[RelayPair]:
    """Relays for an extender of this site."""
    with relays(site) as found:
        yield found


@pytest.fixture
def relayed(stage: Stage, relay_pair: RelayPair) -> Iterator[Stage]:
    """The site's own extender, behind the relays."""
    stage.site.reconfigure(relay_pair.settings)
    try:
        yield stage
        stage.finish()
    finally:
        relay_pair.disarm()
        _start(stage)
        stage.site.reconfigure()


def _start(stage: Stage) -> None:
    if not stage.site.scheduler.running:
        stage.site.scheduler.start()


@each_mode
@pytest.mark.parametrize("k", range(1, SIZE))
def test_a_kill_of_kube_scheduler_while_k_gates_of_a_gang_are_open_leaves_it_whole_on_one_job(
    relayed: Stage, relay_pair: RelayPair, k: int
) -> None:
    """The requests that would open the other gates are held back until kube-scheduler is dead."""
    site = relayed.site
    limit = RequestLimit(OPEN_GATE, k, site.scheduler.kill)
    relay_pair.limit_kube(limit)
    pods = gang(relayed, "ring", SIZE, gated=True)
    reached = limit.reached.wait(60)
    relay_pair.disarm()
    assert reached, f"{k} gates were not opened within a minute: {site.diagnostics()}"
    assert_none_bound(relayed, pods, SETTLED_S)
    site.scheduler.start()
    assert_whole(relayed, pods)


@each_mode
@pytest.mark.parametrize("k", range(1, SIZE))
def test_a_kill_of_kube_scheduler_after_k_votes_leaves_a_gang_whole_on_one_job(stage: Stage, k: int) -> None:
    site = stage.site
    try:
        with ExitStack() as refused:
            pods = voted(stage, k, refused)
            site.scheduler.kill()
            assert_none_bound(stage, pods, SETTLED_S)
            site.scheduler.start()
            assert_none_bound(stage, pods, SETTLED_S)
        assert_whole(stage, pods)
        stage.finish()
    finally:
        _start(stage)
