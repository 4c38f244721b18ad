"""The targets of the fuzzer take the inputs that it begins with, and some that are no input at all."""

from __future__ import annotations

import pytest

from tests.builders.hostile_values import BODIES
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_what_the_fuzzer_begins_with(name: str) -> None:
    target = TARGETS[name]
    assert target.seeds
    for seed in target.seeds:
        target.act(seed)
        target.act(seed[: len(seed) // 2])


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_what_is_no_input(name: str, body: str) -> None:
    for first in (0, 5, 11):
        TARGETS[name].act(bytes([first]) + BODIES[body][:20_000])
