"""Start `kubectl slurm` from its archive: unpack the packages once, for parts of them are machine code.

Copied into the archive as `__main__.py` by `image/plugin.py`; `DIGEST` names its content. The packages go into the
user's cache, where no other user may write.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

DIGEST = "unbuilt"
INSIDE = "packages/"


def unpacked(archive: Path, cache: Path) -> Path:
    """Return the folder with the packages of this archive. A run that was interrupted leaves none that is used."""
    target = cache / DIGEST
    if target.is_dir():
        return target
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=cache))
    try:
        with zipfile.ZipFile(archive) as found:
            found.extractall(partial, [name for name in found.namelist() if name.startswith(INSIDE)])
        try:
            (partial / INSIDE).rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def cache_folder(environ: os._Environ[str]) -> Path:
    """Return the cache of this program."""
    base = environ.get("XDG_CACHE_HOME") or environ.get("LOCALAPPDATA") or str(Path.home() / ".cache")
    return Path(base) / "kubectl-slurm"


if __name__ == "__main__":
    sys.path.insert(0, str(unpacked(Path(sys.argv[0]).resolve(), cache_folder(os.environ))))
    if Path(sys.argv[0]).name.startswith("kubectl_complete"):
        from kubectl_slurm.complete import complete

        complete()
    else:
        from kubectl_slurm.program import main

        main()
