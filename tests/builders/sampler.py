"""Look at real parts again and again by a thread, beside what a test does."""

from __future__ import annotations

import threading
from typing import Self

SAMPLE_S = 0.2


class Sampler:
    """Call `sample` every `SAMPLE_S` seconds while the `with` lasts; `faults` are what it raised."""

    def __init__(self, name: str) -> None:
        self.faults: list[BaseException] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def sample(self) -> None:
        """Look once."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self._over.wait(SAMPLE_S):
            try:
                self.sample()
            except BaseException as error:
                self.faults.append(error)
