"""kubectl of the lab's own Kubernetes version."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabError


def kubectl(
    binaries: Path, kubeconfig: Path, arguments: Sequence[str], *, stdin: str | None = None, timeout_s: float = 120
) -> str:
    """Run kubectl and return what it printed; raises LabError with its own words if it fails or hangs."""
    command = [str(binaries / "kubectl"), f"--kubeconfig={kubeconfig}", *arguments]
    try:
        done = subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"kubectl {' '.join(arguments)}: no answer within {timeout_s:g} s") from None
    if done.returncode != 0:
        raise LabError(f"kubectl {' '.join(arguments)} failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout
