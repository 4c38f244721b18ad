"""Repeat a list until it is interrupted: `-w`."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PAUSE_S = 2.0
REDRAW = "\x1b[H\x1b[J"
"""Move the cursor home and clear the rest of the screen."""

CLEAR = "\x1b[2J"

pause: Callable[[float], None] = time.sleep


def watchable(command: F) -> F:
    """Add `-w`, for commands that list something."""
    text = f"Repeat every {PAUSE_S:g} s: redraw a terminal, otherwise print what changed. Ctrl-C ends it."
    return click.option("-w", "--watch", is_flag=True, help=text)(command)


def repeated(watch: bool, show: Callable[[], None]) -> None:
    """Call `show` once; with `watch` again and again, and print its output where it differs from the last one."""
    if not watch:
        show()
        return
    in_place, last = sys.stdout.isatty(), None
    if in_place:
        click.echo(CLEAR, nl=False)
    while True:
        printed = io.StringIO()
        with redirect_stdout(printed):
            show()
        text = printed.getvalue()
        if text != last:
            click.echo(f"{REDRAW}{text}" if in_place else text, nl=False, color=True)
            last = text
        pause(PAUSE_S)
