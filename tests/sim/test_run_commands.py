"""`slurm-extender simulate`, as a person types it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from extender.cli import main
from simulator import run_commands
from simulator.invariants.invariant import Invariant, Violation
from simulator.options import Options, read_release
from simulator.runner import RunResult


def typed(*words: str) -> Result:
    return CliRunner().invoke(main, ["simulate", "--pods", "1", "--days", "0.001", *words])


def test_a_violated_invariant_is_reported_with_its_story_and_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Violation(
        Invariant.FENCE, 12.5, ("Pod web", "node n1"), "job 7 starts while Pod web is there", ("  12.1 bound",)
    )

    def breaks(options: Options, _watch: object) -> RunResult:
        return RunResult(options, (told,), "a summary\n", "", "", Counter(), Counter(), Counter(), 1)

    monkeypatch.setattr(run_commands, "simulate", breaks)
    done = typed("--seed", "41", "--faults", "none", "--slurm", "24.11.5")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "a summary",
        f"VIOLATED at 12.500 s, Pod web, node n1: {Invariant.FENCE}: job 7 starts while Pod web is there",
        "  12.1 bound",
        "",
        "repeat: slurm-extender simulate --seed 41 --pods 1 --nodes 3 --days 0.001 --slurm 24.11.5 --faults none",
    ]


def test_a_run_that_keeps_every_promise_says_its_seed_also_where_none_was_given() -> None:
    done = typed("--faults", "none")
    assert done.exit_code == 0
    assert done.stdout.startswith("seed ")
    assert "0 violations" in done.stdout


def test_many_seeds_are_reported_with_the_releases_of_slurm_that_they_met(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    done = typed("--seeds", "0:2", "--slurm", "each", "--faults", "none", "--report", str(report))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "2 seeds, 0 violated an invariant"
    assert "simulated Slurm 26.05.5 (1 seed), 25.11.8 (1 seed)" in report.read_text()
    assert "--slurm each --faults none" in report.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--faults", "earthquakes"), "earthquakes is not one of none, all, drawn, network"),
        (("--seeds", "9:3"), "'9:3' is not FROM:TO"),
        (("--slurm", "19.05"), "'19.05' is not simulated; known are 23.11, 24.05"),
        (("--slurm", "newest"), "'newest' is not simulated; known are 23.11, 24.05"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_what_can(words: tuple[str, ...], said: str) -> None:
    done = typed(*words)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_a_release_that_is_named_is_every_seeds() -> None:
    assert {read_release("24.11.5", seed) for seed in range(9)} == {"24.11.5"}
