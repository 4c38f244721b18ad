"""Configure logging: one JSON object a line, or readable text; the standard library's loggers use the same form.

Secrets are hidden by their type, not by guessing from their text: a pydantic `SecretStr` prints as stars wherever it
is, as long as values are printed by `str` or `repr`, which both forms of a line do.

Text from Pods, Slurm and callers appears only in values. None of it ends a line, begins another, or controls a
terminal.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import structlog

from extender.config.serving import LogFormat, LogLevel
from extender.domain.printable import printable
from extender.observability.line_limit import LineLimit

_LEVELS = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}

_LOUD = ("asyncio", "httpx", "httpcore", "kubernetes", "aiohttp", "uvicorn", "urllib3")
"""Loggers of libraries whose debug lines would flood the log, or hold headers with tokens: never below WARNING."""

_SHARED: list[structlog.types.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    structlog.processors.StackInfoRenderer(),
]
_PROCESSORS: list[structlog.types.Processor] = [
    structlog.stdlib.filter_by_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    *_SHARED,
    LineLimit(),
    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
]
"""One list for the whole process: loggers may keep it from their first line on."""

DEEPEST = 20
"""Values within values that are written out."""

LONGEST_VALUE = 4096
"""Characters of one value of a line."""

_UNBOUNDED = frozenset({"exc_info", "stack"})
"""Values that show the extender's own code, and no text of an author."""


def set_up(least: LogLevel, form: LogFormat, stream: TextIO | None = None, *, for_good: bool = False) -> None:
    """Send every log line of the process to `stream`, standard error by default. May be called again.

    `for_good`: structlog is not configured otherwise later. Each logger is then made once, at its first line; else each
    line makes its logger again, and walks the stack for the name of its module.
    """
    out = sys.stderr if stream is None else stream
    structlog.configure(
        processors=_PROCESSORS,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=for_good,
    )
    # No line shows them, and each costs a system call or a walk through the stack ("Optimization" in Python's guide to
    # logging).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_last(form, out)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    _apply(least)


def level() -> LogLevel:
    """Return the least severity that is logged now."""
    now = logging.getLogger().level
    return next((one for one, number in _LEVELS.items() if number == now), LogLevel.INFO)


def set_level(wanted: LogLevel) -> None:
    """Set the least severity that is logged from now on. A restart begins with the configuration's."""
    was = level()
    _apply(wanted)
    if wanted is not was:
        logging.getLogger(__name__).warning("log_level_changed", extra={"before": str(was), "now": str(wanted)})


def toggle_debug(configured: LogLevel) -> None:
    """Log everything, or as configured where everything is logged already."""
    usual = configured if configured is not LogLevel.DEBUG else LogLevel.INFO
    set_level(usual if level() is LogLevel.DEBUG else LogLevel.DEBUG)


def _apply(wanted: LogLevel) -> None:
    logging.getLogger().setLevel(_LEVELS[wanted])
    for name in _LOUD:
        logging.getLogger(name).setLevel(max(_LEVELS[wanted], logging.WARNING))


def _last(form: LogFormat, out: TextIO) -> list[structlog.types.Processor]:
    if form is LogFormat.TEXT:
        plain = structlog.dev.plain_traceback
        console = structlog.dev.ConsoleRenderer(colors=out.isatty(), timestamp_key="ts", exception_formatter=plain)
        return [_bounded, _on_one_line, console]
    return [
        _bounded,
        # Without local variables, which is not the default: a secret that is being used is a plain string.
        structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
        structlog.processors.EventRenamer("msg"),
        structlog.processors.JSONRenderer(_json, default=str, ensure_ascii=False),
    ]


def _bounded(_logger: Any, _name: str, line: structlog.types.EventDict) -> structlog.types.EventDict:
    """Shorten long values: authors decide how many names a line has. The last line before a crash stays whole."""
    if line.get("level") == "critical":
        return line
    return {key: value if key in _UNBOUNDED else _shortened(value) for key, value in line.items()}


def _shortened(value: Any) -> Any:
    """Return a value of at most LONGEST_VALUE characters: of a list the first items, and how many there are besides."""
    if value is None or isinstance(value, int | float):
        return value
    try:
        text = str(value)
    except RecursionError:
        return value  # it is written to a depth of DEEPEST
    if len(text) <= LONGEST_VALUE:
        return value
    if not isinstance(value, list | tuple | set | frozenset):
        return f"{text[: LONGEST_VALUE - 3]}..."
    shown, left = list[str](), LONGEST_VALUE
    for one in map(str, value):
        left -= len(one)
        if left < 0:
            break
        shown.append(one)
    return [*shown, f"and {len(value) - len(shown)} more"]


def _on_one_line(_logger: Any, _name: str, line: structlog.types.EventDict) -> structlog.types.EventDict:
    """Remove what has a meaning to terminals from text; `repr`, which shows other values, does the same."""
    return {key: printable(value) if isinstance(value, str) else value for key, value in line.items()}


def _json(line: Any, **how: Any) -> str:
    """Return one line of JSON that any reader takes, whatever is in it."""
    try:
        text = json.dumps(line, allow_nan=False, **how)
    except (ValueError, TypeError, RecursionError):
        text = json.dumps(_plain(line), **how)
    return printable(text)


def _plain(value: Any, depth: int = 0) -> Any:
    """Return the value in a form that JSON has."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if depth < DEEPEST and isinstance(value, Mapping):
        return {str(key): _plain(one, depth + 1) for key, one in value.items()}
    if depth < DEEPEST and isinstance(value, list | tuple | set | frozenset):
        return [_plain(one, depth + 1) for one in value]
    return value if isinstance(value, str | int | float | None) else str(value)
