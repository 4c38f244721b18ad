"""kube-scheduler is killed at the steps of a gang: the gang is whole afterwards, on the job that it had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.builders.gang_crashes import OPEN_GATE, SETTLED_S, SIZE, assert_whole, voted
from tests.builders.relay import RequestLimit
from tests.builders.relays_of_a_site import RelayPair
from tests.builders.stage import Stage
from tests.builders.staged_gangs import assert_none_bound, gang

pytestmark = pytest.mark.slow

each_mode = pytest.mark.modes("batch", "allocation", "external")


@pytest.fixture
def started_again(relayed: Stage, relay_pair: RelayPair) -> Iterator[Stage]:
    """The site behind its relays. A kube-scheduler that a failed test left dead is started before the extender."""
    try:
        yield relayed
    finally:
        relay_pair.disarm()
        _start(relayed)


def _start(stage: Stage) -> None:
    if not stage.site.scheduler.running:
        stage.site.scheduler.start()


@each_mode
@pytest.mark.parametrize("k", range(1, SIZE))
def test_a_kill_of_kube_scheduler_while_k_gates_of_a_gang_are_open_leaves_it_whole_on_one_job(
    started_again: Stage, relay_pair: RelayPair, k: int
) -> None:
    """The requests that would open the other gates are held back until kube-scheduler is dead."""
    site = started_again.site
    limit = RequestLimit(OPEN_GATE, k, site.scheduler.kill)
    relay_pair.limit_kube(limit)
    pods = gang(started_again, "ring", SIZE, gated=True)
    reached = limit.reached.wait(60)
    relay_pair.disarm()
    assert reached, f"{k} gates were not opened within a minute: {site.diagnostics()}"
    assert_none_bound(started_again, pods, SETTLED_S)
    site.scheduler.start()
    assert_whole(started_again, pods)


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
