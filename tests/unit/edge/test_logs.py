"""Log lines: JSON or text, the libraries' among them, and no secret in any."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import structlog
from pydantic import BaseModel, SecretBytes, SecretStr

from extender.config.document import ExtenderConfiguration
from extender.config.load import parse
from extender.config.serving import LogFormat, LogLevel
from extender.observability import logs
from extender.observability.line_limit import (
    BURST,
    ERROR_BURST,
    EVERY_S,
    KEPT,
    NAMESPACE_A_SECOND,
    NAMESPACE_BURST,
    NAMESPACES_KEPT,
    TOTAL_A_SECOND,
    TOTAL_BURST,
    LineLimit,
)
from extender.observability.logs import set_up

GOOD = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: hush}\n"


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {
        name: logging.getLogger(name).level
        for name in ("asyncio", "httpx", "httpcore", "kubernetes", "aiohttp", "uvicorn", "urllib3")
    }
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)


def lines(level: LogLevel = LogLevel.INFO, form: LogFormat = LogFormat.JSON) -> io.StringIO:
    out = io.StringIO()
    set_up(level, form, out)
    return out


def said(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def only(out: io.StringIO) -> dict[str, Any]:
    [line] = out.getvalue().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_is_one_json_object() -> None:
    out = lines()
    structlog.get_logger("extender.test").info("job_granted", pod="ns/p", job=7)
    line = only(out)
    assert line.pop("ts").endswith("Z")
    assert line == {"msg": "job_granted", "level": "info", "logger": "extender.test", "pod": "ns/p", "job": 7}


def test_lines_of_libraries_come_the_same_way() -> None:
    out = lines()
    logging.getLogger("somebody").warning("took %d s", 5, extra={"host": "h"})
    line = only(out)
    assert (line["msg"], line["level"], line["logger"], line["host"]) == ("took 5 s", "warning", "somebody", "h")


def test_a_failure_brings_its_traceback_in_the_same_line() -> None:
    out = lines()
    try:
        raise ValueError("wrong")
    except ValueError:
        structlog.get_logger("extender.test").exception("failed")
    line = only(out)
    assert line["exception"][0]["exc_type"] == "ValueError"
    assert line["exception"][0]["exc_value"] == "wrong"


@pytest.mark.parametrize("form", list(LogFormat))
def test_no_secret_is_logged_however_deep_it_lies(form: LogFormat) -> None:
    out = lines(form=form)
    secret = SecretStr("hush")
    structlog.get_logger("extender.test").info(
        "start",
        token=secret,
        key=SecretBytes(b"hush"),
        nested={"a": [secret, {"b": (secret,)}]},
        configuration=parse(GOOD, "c.yaml"),
    )
    logging.getLogger("somebody").error("with %s", secret, extra={"token": secret})
    assert "hush" not in out.getvalue()
    assert "**********" in out.getvalue()


@pytest.mark.parametrize("form", list(LogFormat))
def test_a_traceback_does_not_show_local_values(form: LogFormat) -> None:
    out = lines(form=form)
    token = SecretStr("hush").get_secret_value()
    try:
        raise ValueError(f"a token of {len(token)} characters")
    except ValueError:
        structlog.get_logger("extender.test").exception("failed")
    assert "a token of 4 characters" in out.getvalue()
    assert "hush" not in out.getvalue()


def test_the_level_is_kept() -> None:
    out = lines(LogLevel.WARNING)
    structlog.get_logger("extender.test").info("quiet")
    logging.getLogger("somebody").info("quiet")
    structlog.get_logger("extender.test").warning("loud")
    assert only(out)["msg"] == "loud"


def test_debugging_does_not_let_libraries_print_headers() -> None:
    out = lines(LogLevel.DEBUG)
    logging.getLogger("httpcore.http11").debug("send_request_headers X-SLURM-USER-TOKEN")
    structlog.get_logger("extender.test").debug("ours")
    assert only(out)["msg"] == "ours"


def secrets_of(group: BaseModel) -> Iterator[tuple[str, SecretStr | SecretBytes]]:
    """Every secret of a configuration, by the name of its key."""
    for name in type(group).model_fields:
        value = getattr(group, name)
        if isinstance(value, SecretStr | SecretBytes):
            yield name, value
        elif isinstance(value, BaseModel):
            yield from secrets_of(value)


def takes_a_secret(group: type[BaseModel]) -> Iterator[str]:
    for name, field in group.model_fields.items():
        kinds = {field.annotation, *get_args(field.annotation)}
        yield from (name for kind in kinds if kind in {SecretStr, SecretBytes})
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from takes_a_secret(kind)


def test_every_secret_that_a_configuration_can_hold_is_hidden_in_every_form() -> None:
    text = GOOD.replace("slurm: {token: hush}", "slurm: {token: hush-1}\nhooks: {bind: ':8000', key: hush-2}")
    configuration = parse(text, "c.yaml")
    held = dict(secrets_of(configuration))
    assert sorted(held) == sorted(takes_a_secret(ExtenderConfiguration)), "this test leaves a secret out"
    for form in LogFormat:
        out = lines(LogLevel.DEBUG, form)
        log = structlog.get_logger("extender.test")
        log.info("start", configuration=configuration, shown=configuration.model_dump(), **held)
        log.info("as_json", shown=configuration.model_dump(mode="json"), text=repr(configuration))
        try:
            raise ValueError(f"odd: {configuration}")
        except ValueError:
            log.exception("failed")
        assert "hush" not in out.getvalue()


def test_the_level_can_be_changed_while_it_runs_and_that_is_said() -> None:
    out = lines(LogLevel.WARNING)
    logs.set_level(LogLevel.DEBUG)
    structlog.get_logger("extender.test").debug("ours")
    logging.getLogger("httpcore").debug("theirs")
    logs.set_level(LogLevel.ERROR)
    structlog.get_logger("extender.test").warning("quiet")
    said = [json.loads(line)["msg"] for line in out.getvalue().splitlines()]
    assert said == ["log_level_changed", "ours"]
    assert logs.level() is LogLevel.ERROR


@pytest.mark.parametrize(
    ("configured", "then"), [(LogLevel.WARNING, LogLevel.WARNING), (LogLevel.DEBUG, LogLevel.INFO)]
)
def test_debugging_is_switched_on_and_off(configured: LogLevel, then: LogLevel) -> None:
    lines(LogLevel.WARNING)
    logs.toggle_debug(configured)
    assert logs.level() is LogLevel.DEBUG
    logs.toggle_debug(configured)
    assert logs.level() is then


def test_text_is_for_users() -> None:
    out = lines(form=LogFormat.TEXT)
    structlog.get_logger("extender.test").info("job_granted", pod="ns/p")
    text = out.getvalue()
    assert "job_granted" in text
    assert "pod=ns/p" in text
    assert not text.startswith("{")


def test_setting_up_twice_does_not_double_the_lines() -> None:
    lines()
    out = lines()
    structlog.get_logger("extender.test").info("once")
    assert only(out)["msg"] == "once"


ODD: dict[str, object] = {
    "nan": float("nan"),
    "inf": [float("inf"), {"deep": float("-inf")}],
    "newline": "one\ntwo\r\nthree\x1b[31mred\u2028four\u0085five\u202esix",
    "half": "\ud800",
    "bytes": b"\x00\xff",
    "keys": {("a", 1): "tuple", None: "none", 3: {("b",): 1}},
    "set": {3},
}


@pytest.mark.parametrize("name", ODD)
def test_whatever_a_value_is_a_line_is_one_json_object(name: str) -> None:
    out = lines()
    structlog.get_logger("extender.test").info("odd", value=ODD[name])
    [line] = re.split(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", out.getvalue().removesuffix("\n"))
    assert json.loads(line, parse_constant=pytest.fail)["msg"] == "odd"
    line.encode()


@pytest.mark.parametrize(
    "value", ["a\n2026-01-01 [info] pod_bound pod=b", "a\rb", "a\x1b[2Kb", "a\u2028b", "a\x85b", "a\u202eb"]
)
def test_no_value_forges_a_line_of_text(value: str) -> None:
    out = lines(form=LogFormat.TEXT)
    log = structlog.get_logger("extender.test")
    log.info("pod_refused", pod="ns/p", reason=value, faults=[value])
    logging.getLogger("somebody").warning("said %s", value)
    text = out.getvalue()
    assert len(text.splitlines()) == 2
    assert "\x1b[2K" not in text
    assert "\u202e" not in text


def test_a_value_that_holds_itself_is_logged() -> None:
    out = lines()
    loop: list[object] = []
    loop.append(loop)
    structlog.get_logger("extender.test").info("odd", value=loop)
    assert only(out)["msg"] == "odd"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The instant that the limit of lines reads, which a test moves."""
    now = [1000.0]
    monkeypatch.setattr("extender.observability.line_limit._now", lambda: now[0])
    return now


@pytest.mark.parametrize("who", [{"uid": "u1"}, {"pod": ["ns/p"], "workload": "u2"}, {"namespace": "ns", "name": "p"}])
def test_lines_about_one_object_are_few_and_the_next_one_says_how_many_were_left_out(
    clock: list[float], who: dict[str, Any]
) -> None:
    out, log = lines(), structlog.get_logger("extender.test.few")
    for _ in range(3 * BURST):
        log.warning("object_changed", **who)
    assert len(said(out)) == BURST
    assert not any("times" in line for line in said(out))
    log.warning("object_changed", uid="another")
    log.warning("object_gone", **who)
    assert len(said(out)) == BURST + 2
    clock[0] += EVERY_S
    for _ in range(2):
        log.warning("object_changed", **who)
    assert [line["times"] for line in said(out)[BURST + 2 :]] == [2 * BURST + 1]


def test_lines_about_no_object_and_lines_for_debugging_are_all_there() -> None:
    out, log = lines(LogLevel.DEBUG), structlog.get_logger("extender.test.all")
    for _ in range(3 * BURST):
        log.debug("step_taken", uid="u3")
        log.info("poll_failed", error="x")
    assert len(said(out)) == 6 * BURST


def passes(limit: LineLimit, method: str = "info", **line: Any) -> dict[str, Any] | None:
    """The line as it is logged; `None`: it is not."""
    try:
        return dict(limit(None, method, {"event": "object_changed", **line}))
    except structlog.DropEvent:
        return None


def flood(limit: LineLimit, clock: list[float], seconds: int, namespaces: int = 1) -> list[dict[str, Any]]:
    """The lines of 5,000 Pods that change once a second each, for so long."""
    found = []
    for _ in range(seconds):
        for number in range(OBJECTS):
            pod = f"ns{number % namespaces}/p{number}"
            found.append(passes(limit, "warning", pod=pod, uid=f"u{number}"))
        clock[0] += 1.0
    return [line for line in found if line is not None]


OBJECTS = 5000


def test_the_limit_of_lines_remembers_a_bounded_number_of_objects_and_a_clock_that_is_behind_frees_them(
    clock: list[float],
) -> None:
    limit = LineLimit()
    for number in range(KEPT + 10):
        passes(limit, uid=f"u{number}", pod=f"ns{number}/p")
    assert len(limit._allowances) == KEPT
    assert len(limit._namespaces) == NAMESPACES_KEPT
    clock[0] += 100.0
    assert [bool(passes(limit, uid="x")) for _ in range(BURST + 1)] == [True] * BURST + [False]
    clock[0] = 1.0
    assert passes(limit, uid="x")


def test_thousands_of_objects_of_one_namespace_have_a_bounded_number_of_lines_a_second(clock: list[float]) -> None:
    limit = LineLimit()
    found = flood(limit, clock, seconds=10)
    assert len(found) == NAMESPACE_BURST + 9 * NAMESPACE_A_SECOND
    clock[0] += 10.0
    found += [line for line in [passes(limit, pod="ns0/last", uid="last")] if line is not None]
    assert sum(line.get("suppressed", 0) + line.get("times", 1) for line in found) == 10 * OBJECTS + 1


def test_thousands_of_objects_of_many_namespaces_have_a_bounded_number_of_lines_a_second(clock: list[float]) -> None:
    found = flood(LineLimit(), clock, seconds=10, namespaces=OBJECTS)
    assert len(found) == TOTAL_BURST + 9 * TOTAL_A_SECOND


def test_a_flood_of_one_namespace_takes_no_lines_from_others_nor_from_the_extender_itself(clock: list[float]) -> None:
    limit = LineLimit()
    flood(limit, clock, seconds=3)
    assert passes(limit, pod="other/web", uid="u")
    assert passes(limit, "warning", error="Slurm does not answer")
    assert passes(limit, job_id=7)


def test_a_flood_of_all_namespaces_hides_no_errors_and_nothing_about_the_extender_itself(clock: list[float]) -> None:
    limit = LineLimit()
    flood(limit, clock, seconds=3, namespaces=OBJECTS)
    for method in ("info", "warning", "error", "critical"):
        assert passes(limit, method, error="Slurm does not answer")
    assert passes(limit, "critical", workload="step failed")
    errors = [passes(limit, "error", uid=f"u{number}") for number in range(OBJECTS)]
    assert 0 < len([line for line in errors if line]) <= ERROR_BURST
