"""Log lines: JSON or text, the libraries' among them, and no secret in any."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from pydantic import SecretBytes, SecretStr

from extender.config.load import parse
from extender.config.serving import LogFormat, LogLevel
from extender.logs import set_up

GOOD = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: hush}\n"


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {
        name: logging.getLogger(name).level
        for name in ("asyncio", "httpx", "httpcore", "kubernetes", "aiohttp", "uvicorn")
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


def test_text_is_for_people() -> None:
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
