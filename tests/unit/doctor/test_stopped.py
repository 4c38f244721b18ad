"""A doctor that is stopped ends what it began, and says so."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner

from extender.cli import main
from extender.doctor import run as running


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def ends(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal; one that nobody takes fails the test, and does not end it."""
    number: signal.Signals = request.param

    def untaken(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"{number.name} was not taken")

    before = signal.signal(number, untaken)
    yield number
    signal.signal(number, before)


def test_what_was_begun_is_ended_before_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: signal.Signals
) -> None:
    ended = []

    async def examine(*_given: object) -> None:
        os.kill(os.getpid(), ends)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append("the probe")

    monkeypatch.setattr(running, "examine", examine)
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: t}\n"
        f"kubernetes: {{kubeconfig: {tmp_path}/none}}\n"
    )
    result = CliRunner().invoke(main, ["doctor", "--config", str(config)])
    assert (result.exit_code, ended) == (2, ["the probe"])
    assert result.stderr == "stopped before all checks had run\n"
