"""The keys by which scripts on Slurm's nodes prove themselves to the hooks."""

from __future__ import annotations

from pathlib import Path

from extender.config.document import ExtenderConfiguration


class KeyFileError(Exception):
    """A key of the hooks cannot be read; the text says which file and why."""


def hook_key(config: ExtenderConfiguration) -> bytes | None:
    """The key of the jobs' tokens; `None` where the site gives none. Raises `KeyFileError`."""
    hooks = config.hooks
    if hooks.key is not None:
        return hooks.key.get_secret_value().encode()
    return _read_key(hooks.key_file)


def site_key(config: ExtenderConfiguration) -> bytes | None:
    """What the site's own scripts show; `None` where there is none. Raises `KeyFileError`."""
    return _read_key(config.hooks.site_key_file)


def _read_key(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise KeyFileError(f"key file {path}: {error.strerror}") from error
    if not key:
        raise KeyFileError(f"key file {path} is empty: it must hold a key")
    return key
