"""Check signals for jobs: slurmrestd answers an unknown one with an error, and sends SIGKILL anyway."""

from __future__ import annotations

import signal
from typing import Final

from slurmclient.errors import InvalidRequestError

_NAMES: Final = frozenset(member.name.removeprefix("SIG") for member in signal.Signals)
_MOST: Final = max(member.value for member in signal.Signals)

#: Reaches no process: asks whether the job is there.
PROBE: Final = "0"


def check_signal(value: str | int) -> str:
    """Return a signal in the form that slurmrestd accepts: `TERM` for `SIGTERM`, a number as decimal text.

    Raises:
        InvalidRequestError: neither the name of a signal nor a number from 1 to 64 (0 is for the probe alone).
    """
    text = str(value).strip().upper().removeprefix("SIG")
    number = int(text) if text.isascii() and text.isdigit() else None
    if isinstance(value, bool) or not (text in _NAMES or (number is not None and 1 <= number <= _MOST)):
        raise InvalidRequestError(f"signal {value!r} is neither a name like 'TERM' nor a number from 1 to {_MOST}")
    return text if number is None else str(number)
