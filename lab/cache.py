"""A cache of built things: one folder per recipe, made once, and visible only when complete."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Return ``$SLURM_EXTENDER_LAB_CACHE``, else ``slurm-extender-lab`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    named = os.environ.get("SLURM_EXTENDER_LAB_CACHE")
    if named:
        return Path(named).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").resolve() / "slurm-extender-lab"


def recipe_hash(*parts: str | bytes) -> str:
    """Twelve hex digits that change whenever any part of a recipe does."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:12]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``, waiting for it; the kernel drops it when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def entry(name: str, key: str, cache: Path) -> Path:
    """Return the path of the thing ``name`` made by the recipe ``key``, whether it exists or not."""
    return cache / f"{name}-{key}"


def build_once(name: str, key: str, build: Callable[[Path], None], *, cache: Path) -> Path:
    """Return the folder of ``name`` made by the recipe ``key``, calling ``build(folder)`` only if there is none yet.

    ``build`` works in a folder of another name, renamed when it returns: a crash in the middle leaves nothing that
    looks finished, and the next builder starts from a clean folder. Two builders of one thing wait for each other.
    """
    final = entry(name, key, cache)
    if final.is_dir():
        return final
    with locked(cache / "locks" / f"{name}-{key}"):
        if final.is_dir():
            return final
        partial = cache / "partial" / final.name
        if partial.exists():
            shutil.rmtree(partial)
        partial.mkdir(parents=True)
        build(partial)
        partial.rename(final)
    return final
