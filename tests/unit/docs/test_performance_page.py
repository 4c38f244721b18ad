"""The table of figures is what the results say, and a goal is met where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.real.measurements import BARE_OF, MEASUREMENTS
from bench.simulated.__main__ import MEASUREMENTS as SIMULATED
from docs.generate.performance import BEGIN, END, MISSING, PAGE, RESULTS, render, results, rewritten
from docs.generate.performance_rows import ROWS

TOP = Path(__file__).parents[3]


def page() -> str:
    return (TOP / PAGE).read_text(encoding="utf-8")


def row_of(source: str, found: dict[str, Any], number: int = 0) -> str:
    """The line of the table that shows a result."""
    lines = render({source: found}).splitlines()[2:]
    return [line for row, line in zip(ROWS, lines, strict=False) if row.source == source][number]


def summary(p50: float, p99: float | None = None) -> dict[str, Any]:
    return {"p50": p50, "p99": p50 if p99 is None else p99, "count": 2, "median_of_each_round": [p50, p50]}


def burst(*, bare: float, alone: float = 100.0, valid: bool = True) -> dict[str, Any]:
    rates = {"slurm": 90.0, "bare": bare, "alone": alone, "allocate": 120.0, "ungate": 300.0}
    ratios = {"ratio": 90.0 / bare, "bare_to_slower_part": bare / alone, "bare_to_parts_in_turn": 1.0}
    return {"median_per_s": rates, "busy": {"bare": 0.99}, "valid": valid, **ratios}


def test_the_table_in_the_page_is_that_of_the_results() -> None:
    fresh = rewritten(page(), results(TOP / RESULTS))
    assert fresh == page(), "docs/performance.md is stale: python -m docs.generate.performance"


def test_the_http_clients_are_compared_by_the_requests_of_placing() -> None:
    clients, cost = (json.loads((TOP / RESULTS / f"{name}.json").read_text()) for name in ("http_clients", "cost"))
    placing_ms = cost["at_once"]["cpu_ms_per_pod"]
    requests = sum(cost["at_once"]["slurm"][kind] for kind in ("allocate", "job")) / cost["at_once"]["pods"]
    shares = [value * round(requests) / placing_ms for value in clients["more_ms_per_request"]]
    assert shares == pytest.approx(clients["placement_share_of_placed_pod"])
    for path in (PAGE, "docs/decisions/0025-http-client.md"):
        text = (TOP / path).read_text(encoding="utf-8")
        assert f"{shares[0]:.1%}".replace("%", " %") in text
        assert f"{clients['more_ms_per_life'][0] / placing_ms:.1%}".replace("%", " %") not in text


def test_every_row_has_a_measurement_and_every_measurement_a_row() -> None:
    assert {row.source for row in ROWS} == {*MEASUREMENTS, *SIMULATED}
    assert set(BARE_OF) <= set(MEASUREMENTS)


def test_a_row_without_a_measurement_says_so() -> None:
    lines = [line for line in render({}).splitlines() if MISSING in line]
    assert len(lines) == len(ROWS)


def test_a_result_of_an_older_bench_is_no_figure() -> None:
    assert "older bench" in row_of("cost", {"at_once": {"requests_per_pod": 2.0}})


@pytest.mark.parametrize(("later", "met"), [(0.03, "| +30 ms | yes |"), (0.031, "| +31 ms | **no** |")])
def test_a_resource_claim_may_cost_30_ms(later: float, met: str) -> None:
    found = {"with_s": summary(0.05 + later), "without_s": summary(0.05), "later_p50_s": later}
    assert row_of("placing-claim", found).endswith(met)


@pytest.mark.parametrize(("ratio", "met"), [(1.5, "| yes |"), (1.51, "| **no** |")])
def test_a_ratio_above_its_goal_at_p50_or_p99_is_reported(ratio: float, met: str) -> None:
    found = {"ours_s": summary(0.045, 0.15), "bare_s": summary(0.03, 0.1), "ratio_p50": 1.0, "ratio_p99": ratio}
    line = row_of("placing-external", found)
    assert line.endswith(met)
    assert "45 ms, 150 ms" in line
    assert "30 ms, 100 ms" in line


@pytest.mark.parametrize(("p99", "met"), [(0.7, "| yes |"), (0.72, "| **no** |")])
def test_what_a_poll_may_add_is_the_poll_of_that_run(p99: float, met: str) -> None:
    found = {"s": summary(0.2, p99), "busy_s": summary(0.2, 9.0), "poll_s": {"s": 0.41, "busy_s": 0.41}}
    assert row_of("granted", found).endswith(met)
    assert row_of("granted", found, 1).endswith("| **no** |")


def test_a_burst_is_held_to_a_floor_that_is_one() -> None:
    assert row_of("burst-300", burst(bare=100.0)).endswith("| yes |")
    assert row_of("burst-300", burst(bare=110.0)).endswith("| **no** |")
    assert row_of("burst-300", burst(bare=50.0, valid=False)).endswith("| - |")
    assert row_of("burst-300", burst(bare=50.0, valid=False), 1).endswith("| **no** |")


def test_a_cost_that_grows_with_the_crowd_is_reported_and_drawn() -> None:
    def point(times: int, cost: float) -> dict[str, Any]:
        crowd = {"waiting": 50 * times, "running": 50 * times, "nodes": 500 * times}
        return {"times": times, **crowd, "cpu_ms_per_pod": cost, "idle_cpu_share": 0.03, "first_sync_cpu_s": 1.0}

    flat = {"points": [point(1, 4.0), point(8, 4.7)], "most_to_least": 1.175}
    grows = {"points": [point(1, 4.0), point(8, 8.0)], "most_to_least": 2.0}
    assert row_of("flat", flat).endswith("| yes |")
    assert row_of("flat", grows).endswith("| **no** |")
    bars = [line.count("█") for line in render({"flat": grows}).splitlines() if "█" in line]
    assert bars == [20, 40]


@pytest.mark.parametrize(
    ("size", "cpu_s", "met"), [(8, 3.5, "| 1.17 | yes |"), (8, 3.7, "| 1.23 | **no** |"), (2, 3.0, "| 1.00 | - |")]
)
def test_waiting_gangs_of_another_size_meet_no_goal(size: int, cpu_s: float, met: str) -> None:
    single = {"requests": 600, "filters": 0, "cpu_s": 3.0, "seconds": 60.0}
    found = {"size": size, "gangs": single | {"cpu_s": cpu_s}, "single": single}
    assert row_of("gangs-waiting", found).endswith(met)


@pytest.mark.parametrize(
    ("seconds", "barriers", "met"),
    [(15.0, 1, "| 1.50 | yes |"), (15.1, 1, "| 1.51 | **no** |"), (10.0, 2, "| 1.00 | **no** |")],
)
def test_a_large_gang_is_held_to_the_bare_pipeline_and_to_one_barrier(seconds: float, barriers: int, met: str) -> None:
    found = {"s": [seconds], "single_s": [9.0], "bare_s": [10.0], "barriers": [{"passed": barriers}]}
    assert row_of("gang-512", found, 1).endswith(met)


def test_each_result_says_how_it_was_made() -> None:
    found = {"ours_s": [1.0, 2.0], "bare_s": [1.0, 2.0], "command": "python -m bench.real finishing"}
    found |= {"parts": "Slurm 26.05.5", "machine": "2 cores", "date": "2026-01-02"}
    line = "| finishing | `python -m bench.real finishing` | 2 rounds | Slurm 26.05.5 | 2 cores | 2026-01-02 |"
    assert line in render({"finishing": found}).splitlines()


def test_a_page_without_a_marker_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0 times, it needs it once"):
        rewritten(page().replace(END, ""), {})
    with pytest.raises(ValueError, match=r"2 times, it needs it once"):
        rewritten(page() + BEGIN, {})
