"""What is printed: ages as kubectl's, tables of any size, keys that stay."""

from __future__ import annotations

import json

import pytest

from kubectl_slurm.age import age, span
from kubectl_slurm.output import table
from tests.builders.kubectl_program import a_node, a_pod, run_plugin
from tests.builders.plain_api import PlainApi

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (10 * MINUTE, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + MINUTE, "3h1m"),
        (8 * HOUR, "8h"),
        (48 * HOUR, "2d"),
        (49 * HOUR, "2d1h"),
        (8 * DAY, "8d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (9 * YEAR, "9y"),
    ],
)
def test_spans_read_as_kubectl_prints_them(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_an_age_of_which_nothing_is_known_is_none() -> None:
    assert age("", 0.0) == age("2026-01-01T00:00:00Z", None) == age("yesterday", 0.0) == ""


def test_a_cell_with_line_breaks_stays_one_line(api: PlainApi) -> None:
    api.nodes = [a_node("n1", why="DRAIN:\n  bad\tdisk")]
    assert "DRAIN: bad disk" in run_plugin("nodes").stdout
    assert len(run_plugin("nodes").stdout.splitlines()) == 2


def test_a_table_needs_no_lines() -> None:
    assert table(["NAME", "JOB"], []) == "NAME   JOB"


def test_ten_thousand_rows_take_a_list_and_no_request_for_each(api: PlainApi) -> None:
    api.pods = [a_pod(f"p-{number:05}", why="Slurm job 7 waits: it queues.") for number in range(10_000)]
    api.nodes = [a_node(f"n-{number:05}") for number in range(10_000)]
    api.lease = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
    slurm = [{"name": f"c-{number}", "kubernetes": f"n-{number:05}", "state": "IDLE"} for number in range(10_000)]
    api.debug = {"nodes": {"slurm": slurm, "holds": []}}
    assert len(run_plugin("jobs", "-o", "wide").stdout.splitlines()) == 10_001
    assert len(api.requests) == 20
    assert len(json.loads(run_plugin("nodes", "-o", "json").stdout)) == 10_000
    assert len(api.requests) == 43  # twenty pages, the Lease, a port that may not be forwarded, the proxy


KEYS = {
    ("jobs",): {
        "namespace",
        "name",
        "uid",
        "job",
        "state",
        "reason",
        "node",
        "slurmNode",
        "devices",
        "why",
        "since",
        "created",
    },
    ("nodes",): {
        "name",
        "ready",
        "cordoned",
        "slurmNode",
        "slurm",
        "reason",
        "nativeJobs",
        "unavailable",
        "drainReason",
        "created",
        "slurmState",
        "partitions",
        "held",
    },
    ("status",): {"name", "status", "message", "failed"},
    ("history", "web"): {"name", "time", "source", "message"},
    ("drain", "n1"): {"name", "result", "message", "reason"},
}


@pytest.mark.parametrize("words", KEYS, ids=" ".join)
def test_the_keys_of_json_stay(api: PlainApi, words: tuple[str, ...]) -> None:
    api.pods, api.nodes = [a_pod("web")], [a_node("n1")]
    api.lease = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
    api.debug = {"nodes": {"slurm": [{"name": "c1", "kubernetes": "n1", "state": "IDLE"}], "holds": []}}
    rows = json.loads(run_plugin(*words, "-o", "json").stdout)
    assert all(set(row) == KEYS[words] for row in rows)
    for form in ("yaml", "name", "wide", "table"):
        assert run_plugin(*words, "-o", form).exit_code == 0


def test_one_pod_is_one_object(api: PlainApi) -> None:
    api.pods = [a_pod("web", why="The word.")]
    assert set(json.loads(run_plugin("why", "web", "-o", "json").stdout)) == KEYS["jobs",] | {"source"}


def test_nothing_is_coloured(api: PlainApi) -> None:
    api.pods = [a_pod("web", why="The word.")]
    for words in (("jobs",), ("why", "web"), ("status",), ("--help",), ("why", "nobody")):
        assert "\x1b" not in run_plugin(*words).output


HOSTILE = "fine\x1b[2K\u202egnp.exe\u2028forged: it runs\x85\u200b"


@pytest.mark.parametrize("form", ["table", "wide", "name", "json", "yaml"])
@pytest.mark.parametrize(
    "words", [("jobs",), ("why", "web"), ("nodes",), ("history", "web"), ("drain", "n1")], ids=" ".join
)
def test_no_word_of_others_controls_a_terminal_or_begins_a_line(
    api: PlainApi, words: tuple[str, ...], form: str
) -> None:
    annotations = {"slurm-extender.io/slurm-node": HOSTILE, "status.slurm-extender.io/job-id": HOSTILE}
    api.pods = [a_pod("web", why=HOSTILE, node=HOSTILE, annotations=annotations)]
    api.nodes = [a_node("n1", why=HOSTILE, annotations=annotations)]
    shown = run_plugin(*words, "-o", form)
    assert all(line.isprintable() for line in shown.output.split("\n"))
    assert "\nforged" not in shown.output


def test_no_name_in_an_error_controls_a_terminal(api: PlainApi) -> None:
    api.pods = [a_pod("web", scheduler=HOSTILE)]
    said = run_plugin("why", "web")
    assert said.exit_code == 1
    assert said.output.removesuffix("\n").isprintable()
