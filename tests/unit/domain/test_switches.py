"""The annotation `switches`: how many leaf switches, and how long to wait for them."""

from __future__ import annotations

import pytest

from extender.cli.sbatch import sbatch_line
from extender.domain.jobs.job import JobRequest
from extender.domain.translation.forms import SWITCHES, Switches


@pytest.mark.parametrize(
    ("text", "count", "wait_s"),
    [("1", 1, None), ("2@30", 2, 1800), ("1@0:45", 1, 45), ("1@1-00", 1, 86400), ("1@90s", 1, 90), ("1@2h", 1, 7200)],
)
def test_a_number_and_a_wait_in_the_forms_of_sbatch_are_read(text: str, count: int, wait_s: int | None) -> None:
    assert SWITCHES.read(text) == Switches(count, wait_s)


@pytest.mark.parametrize("text", ["0", "", "@5", "1@", "1@soon", "1@5@6", "-1", "1@0"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        SWITCHES.read(text)


def test_translate_shows_the_wait_as_sbatch_takes_it() -> None:
    request = JobRequest(title="ring", cpus=1, memory_mb=1, switches=1)
    assert "--switches=1 " in f"{sbatch_line(request)} "
    waits = JobRequest(title="ring", cpus=1, memory_mb=1, switches=1, switches_wait_s=5430)
    assert "--switches=1@90:30" in sbatch_line(waits)
