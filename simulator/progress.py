"""Print a line now and then while a simulation runs, on standard error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

EVERY_S = 5.0
MINUTE_S = 60.0

Watch = Callable[[Callable[[], float]], None]


@contextmanager
def progress_lines(
    lasts_s: float,
    every_s: float = EVERY_S,
    print_line: Callable[[str], None] = lambda text: click.echo(text, err=True),
) -> Iterator[Watch]:
    """Yield a function that takes the virtual clock; from then on a thread prints how far it is, until the end."""
    ended = threading.Event()
    threads: list[threading.Thread] = []

    def watch(clock: Callable[[], float]) -> None:
        began = clock()
        thread = threading.Thread(target=report, args=(clock, began), daemon=True)
        threads.append(thread)
        thread.start()

    def report(clock: Callable[[], float], began: float) -> None:
        while not ended.wait(every_s):
            done = clock() - began
            at = f"virtual minute {done / MINUTE_S:.0f} of {lasts_s / MINUTE_S:.0f}"
            print_line(at if done <= lasts_s else f"{at}; waiting until everything is at rest")

    try:
        yield watch
    finally:
        ended.set()
        for thread in threads:
            thread.join()
