"""Look at real parts again and again by a thread, beside what a test does."""

from __future__ import annotations

import threading
from typing import Self

from lab.clock import elapsed

SAMPLE_S = 0.2


class Sampler:
    """Call `sample` every `every_s` seconds while the `with` lasts, or as often as the machine can.

    `faults` are what it raised; `rate` is the number of samples in a second, from the first to the last.
    """

    def __init__(self, name: str, *, every_s: float = SAMPLE_S) -> None:
        self.faults: list[BaseException] = []
        self._every_s = every_s
        self._times: tuple[float, float] | None = None
        self._samples = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def rate(self) -> float:
        """Return samples in a second; 0 before the second one."""
        first, last = self._times or (0.0, 0.0)
        return (self._samples - 1) / (last - first) if last > first else 0.0

    def sample(self) -> None:
        """Look once."""
        raise NotImplementedError

    def _run(self) -> None:
        due = elapsed()
        while not self._stopped.wait(max(0.0, due - elapsed())):
            began = elapsed()
            try:
                self.sample()
            except BaseException as error:
                self.faults.append(error)
            self._samples += 1
            self._times = (self._times[0] if self._times else began, began)
            due = max(due + self._every_s, began)
