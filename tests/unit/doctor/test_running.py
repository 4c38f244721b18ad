"""What the running process, its hooks and a job on a node say; and how findings are printed."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from docs.generate.configuration import SMALLEST
from extender.config.listeners import Listener
from extender.config.load import parse
from extender.config.values import BindAddress
from extender.doctor.checks.extender import NOT_TRUSTED, calls, hooks, listeners, probe, probed_fence, process
from extender.doctor.facts import HealthLine, HooksAsConfigured, ProbedFence, ProbeResult, RunningExtender
from extender.doctor.finding import Finding, Verdict, as_json, as_text, error, ok, skipped, warning, worst
from extender.kube.connection import IN_A_POD
from extender.server.process import warn_of_loopback

OK, WARNING, ERROR, SKIPPED = Verdict
READY = HealthLine("pods", True, "3 Pods known")


def examined(given: RunningExtender, reported: Collection[str] = ()) -> list[Finding]:
    """The lines about the process, and about calls if it answered."""
    return [*process(given, reported), *(() if given.error else calls(given, "slurm"))]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (RunningExtender(lines=[READY], filters=4, leads=True), [OK, OK]),
        (RunningExtender(lines=[READY], filters=0, leads=True), [OK, OK]),
        (RunningExtender(lines=[READY], filters=0, leads=True, waiting_s=[60, 70]), [OK, ERROR]),
        (RunningExtender(lines=[READY], filters=0, leads=False, waiting_s=[60, 70]), [OK, SKIPPED]),
        (RunningExtender(lines=[READY]), [OK, SKIPPED]),
        (RunningExtender(lines=[replace(READY, ok=False)], filters=1), [ERROR, OK]),
        (RunningExtender(lines=[replace(READY, ok=False, required=False)], filters=1), [WARNING, OK]),
        (RunningExtender(error="refused"), [SKIPPED]),
    ],
)
def test_the_state_of_a_running_process_is_queried(given: RunningExtender, said: list[Verdict]) -> None:
    assert [one.verdict for one in examined(given)] == said


def test_a_listener_that_no_other_pod_reaches_is_a_warning() -> None:
    bound = (Listener("http.bind", BindAddress("127.0.0.1", 8080)), Listener("hooks.bind", BindAddress("", 8000)))
    [found] = listeners(bound)
    assert found.verdict is WARNING
    assert "http.bind is 127.0.0.1:8080" in found.seen
    assert 'set http.bind to ":8080"' in found.advice


def test_the_process_warns_at_its_start_in_a_pod_of_listeners_that_no_other_pod_reaches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = parse(SMALLEST, "example")
    monkeypatch.delenv(IN_A_POD, raising=False)
    with capture_logs() as outside:
        warn_of_loopback(config)
    monkeypatch.setenv(IN_A_POD, "10.0.0.1")
    with capture_logs() as inside:
        warn_of_loopback(config)
    assert not outside
    assert [(line["event"], line["key"]) for line in inside] == [
        ("listens_on_loopback", key) for key in ("http.bind", "observability.healthBind", "observability.metricsBind")
    ]


DAY = 86400.0


@pytest.mark.parametrize(
    ("filters", "quiet_s", "waiting_s", "verdict", "said"),
    [
        (9, 3.0, [5.0, DAY], OK, "called /filter 3 s ago, 9 times in all"),
        (9, DAY, [], OK, "called /filter 86400 s ago"),
        (9, 300.0, [DAY], OK, "300 s ago"),
        (9, DAY, [DAY], ERROR, "has not called for 86400 s, and 1 Pods of slurm wait for it"),
        (9, 300.0, [60.0, DAY], ERROR, "has not called for 300 s, and 1 Pods"),
        (9, 300.0, [1.0], OK, "300 s ago"),
        (0, 20.0, [DAY], SKIPPED, "has not called for 20 s, which is not long"),
        (0, 20.0, [15.0], ERROR, "has never called, and 1 Pods"),
        (0, 500.0, [DAY, DAY], ERROR, "has never called, and 2 Pods"),
        (0, DAY, [], OK, "no Pod waits for it"),
    ],
)
def test_kube_scheduler_is_judged_by_its_last_call_and_by_who_waits_for_the_next(
    filters: int, quiet_s: float, waiting_s: list[float], verdict: Verdict, said: str
) -> None:
    given = RunningExtender(lines=[READY], filters=filters, leads=True, quiet_s=quiet_s, waiting_s=waiting_s)
    _, one = examined(given)
    assert (one.check, one.verdict) == ("calls", verdict)
    assert said in one.seen


def test_what_was_said_of_slurm_is_not_said_again() -> None:
    again = RunningExtender(lines=[READY, HealthLine("fences", False, "one; two", required=False)], filters=1)
    assert [one.verdict for one in examined(again, {"one", "two", "three"})] == [OK, OK]
    assert [one.verdict for one in examined(again, {"one"})] == [WARNING, OK]


GOOD = HooksAsConfigured(bound=True, url="http://h.example:8000", key_file=True, answer=405, hooks_answered=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (GOOD, [OK]),
        (replace(GOOD, bound=False), [WARNING]),
        (replace(GOOD, url=""), [WARNING]),
        (replace(GOOD, key_file=False), [WARNING, OK]),
        (replace(GOOD, tls=True), [WARNING, OK]),
        (replace(GOOD, url="http://127.0.0.1:8000"), [WARNING, OK]),
        (replace(GOOD, answer=0, hooks_answered=False, error="refused"), [SKIPPED]),
        (replace(GOOD, answer=404, hooks_answered=False), [WARNING]),
        (replace(GOOD, answer=502, hooks_answered=False), [WARNING]),
    ],
)
def test_hooks_that_cannot_be_called_are_reported(given: HooksAsConfigured, said: list[Verdict]) -> None:
    assert [one.verdict for one in hooks(given, False)] == said


def test_a_fence_script_with_an_unknown_key_is_reported() -> None:
    assert [one.verdict for one in hooks(GOOD, True)] == [WARNING, OK]
    assert [one.verdict for one in hooks(replace(GOOD, site_key_file=True), True)] == [OK]


DONE = ProbeResult("http://h:8000", 7, "n1", "COMPLETED", code=0)


@pytest.mark.parametrize(
    ("given", "verdict", "said"),
    [
        (DONE, OK, "job 7 on n1 reached http://h:8000"),
        (replace(DONE, state="FAILED", code=11), ERROR, "nothing answered"),
        (replace(DONE, state="FAILED", code=NOT_TRUSTED), ERROR, "does not trust the certificate"),
        (replace(DONE, state="FAILED", code=13), ERROR, "5xx"),
        (replace(DONE, state="FAILED", code=14), ERROR, "neither curl nor wget"),
        (replace(DONE, state="FAILED", code=15), ERROR, "another program answers there"),
        (replace(DONE, state="NODE_FAIL", code=0), ERROR, "NODE_FAIL"),
        (replace(DONE, state="PENDING", reason="Priority", code=None), WARNING, "PENDING (Priority)"),
        (ProbeResult("http://h:8000", error="Invalid partition"), ERROR, "Invalid partition"),
    ],
)
def test_what_a_probe_found_is_said(given: ProbeResult, verdict: Verdict, said: str) -> None:
    [one] = probe(given)
    assert one.verdict is verdict
    assert said in one.seen


@pytest.mark.parametrize(
    ("given", "verdicts", "said"),
    [
        (ProbedFence(("n1",)), [OK], "n1 called"),
        (ProbedFence((), ("n1",)), [WARNING], "no Epilog with the site key called from n1"),
        (ProbedFence(("n1",), ("n2",)), [OK, WARNING], "n1 called"),
        (ProbedFence((), ("n1",), no_key=True), [SKIPPED], "hooks.siteKeyFile"),
        (ProbedFence((), ("n1",), trouble="refused"), [SKIPPED], "refused"),
    ],
)
def test_what_the_fence_did_at_the_end_of_a_probe_is_said(
    given: ProbedFence, verdicts: list[Verdict], said: str
) -> None:
    found = list(probed_fence(given))
    assert [one.verdict for one in found] == verdicts
    assert said in found[0].seen


FOUND = [ok("a", "fine"), warning("b", "slow", "hurry"), skipped("c", "dark", "look"), error("d", "broken", "fix it")]


def test_findings_are_lines_with_what_to_do_and_counts() -> None:
    assert as_text(FOUND) == (
        "ok       a: fine\n"
        "warning  b: slow\n"
        "         -> hurry\n"
        "skipped  c: dark\n"
        "         -> look\n"
        "error    d: broken\n"
        "         -> fix it\n"
        "1 ok, 1 warning, 1 error, 1 skipped\n"
    )


def test_findings_are_json_for_programs() -> None:
    said = json.loads(as_json(FOUND))
    assert said["findings"][1] == {"check": "b", "verdict": "warning", "seen": "slow", "advice": "hurry"}
    assert said["counts"] == {"ok": 1, "warning": 1, "error": 1, "skipped": 1}


def test_the_worst_of_all_decides_and_what_was_not_seen_does_not() -> None:
    assert worst(FOUND) is ERROR
    assert worst(FOUND[:3]) is WARNING
    assert worst([FOUND[0], FOUND[2]]) is OK


@pytest.mark.parametrize("verdict", [WARNING, ERROR, SKIPPED])
def test_every_complaint_says_what_to_do(verdict: Verdict) -> None:
    with pytest.raises(ValueError, match="without advice"):
        Finding("x", verdict, "seen")


def test_no_word_of_a_cluster_in_a_report_begins_a_line_or_controls_a_terminal() -> None:
    text = as_text([Finding("nodes", ERROR, "n1\nOK   all is well\x1b[2K", "look at \u202en1")])
    assert all(line.isprintable() for line in text.split("\n"))
    assert "\nOK" not in text
