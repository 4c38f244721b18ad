"""A long command of a builder, which must not go on when the builder is gone."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.errors import LabError
from lab.machine import require_programs


def run_bound(
    command: Sequence[str], what: str, *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> None:
    """Run ``command`` to its end; raises LabError with ``what`` and the last words of the command if it fails.

    The command dies with this process, SIGKILL included: the lock of its cache entry is free then, and the next builder
    would meet it in the same folder. The death signal is tied to the calling thread, which waits here anyway.
    """
    require_programs(("setpriv",))
    done = subprocess.run(
        ["setpriv", "--pdeathsig=KILL", "--", *command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise LabError(f"{what} failed ({done.returncode}):\n{done.stdout[-3000:]}")
