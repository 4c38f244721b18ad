"""The keys by which scripts on Slurm's nodes prove themselves to the hooks."""

from __future__ import annotations

from pathlib import Path

from extender.config.document import ExtenderConfiguration
from extender.config.serving import AllocationProofs
from extender.domain.jobs.identity import hook_token
from extender.slurm.placeholder_script import HookSettings


class KeyFileError(Exception):
    """A key of the hooks cannot be read; the text says which file and why."""


MOST_KEYS = 8
"""Keys of the hooks that are read; while one is replaced there are two."""

LONGEST_FILE = 64 * 1024
"""Bytes of a key file; a longer one is another file by mistake."""

SHORTEST_KEY = 16
"""Bytes of a key: who has a proof that was made with a shorter one finds the key by trying."""


def hook_keys(config: ExtenderConfiguration) -> tuple[bytes, ...]:
    """Return the keys of job tokens and of allocation proofs; none where the site gives none. Raises `KeyFileError`.

    A key stands on each line. The first one signs, all verify: put a new one above the old one, and take the old one
    away when every replica has been started again.
    """
    hooks = config.hooks
    if hooks.key is not None:
        return (hooks.key.get_secret_value().encode(),)
    text = _read_key(hooks.key_file)
    keys = tuple(line.strip() for line in text.splitlines() if line.strip()) if text is not None else ()
    if len(keys) > MOST_KEYS:
        raise KeyFileError(f"key file {hooks.key_file} has {len(keys)} keys, one on each line: at most {MOST_KEYS}")
    return keys


def require_key(config: ExtenderConfiguration) -> None:
    """Refuse to serve where no proof of an allocation record would outlive this process. Raises `KeyFileError`."""
    hooks = config.hooks
    if hooks.allocation_proofs is AllocationProofs.SIGNED and hooks.key is None and hooks.key_file is None:
        raise KeyFileError(
            "hooks.keyFile is not set: it must name a file with a random key, which proves what the extender wrote on "
            "Pods. For a trial, set hooks.allocationProofs to unsigned."
        )


def site_key(config: ExtenderConfiguration) -> bytes | None:
    """Return the key of the site's own scripts; `None` if there is none. Raises `KeyFileError`."""
    return _read_key(config.hooks.site_key_file)


def _read_key(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with Path(path).open("rb") as file:
            key = file.read(LONGEST_FILE + 1).strip()
    except OSError as error:
        raise KeyFileError(f"key file {path}: {error.strerror}") from error
    if not key:
        raise KeyFileError(f"key file {path} is empty: it must hold a key")
    if len(key) > LONGEST_FILE:
        raise KeyFileError(f"key file {path} has more than {LONGEST_FILE} bytes: it must hold keys, one on each line")
    for number, line in enumerate(key.splitlines(), 1):
        _check(line.strip(), f"key file {path}: line {number}")
    return key


def _check(line: bytes, where: str) -> None:
    """Raise `KeyFileError` for a line that is no key: a binary key may hold ends of lines, and falls into pieces."""
    if line and any(byte < 32 or byte > 126 for byte in line):
        raise KeyFileError(f"{where} is not text: write the key in hexadecimal, such as of `openssl rand -hex 32`")
    if line and len(line) < SHORTEST_KEY:
        raise KeyFileError(f"{where} has {len(line)} characters: a key must have at least {SHORTEST_KEY}")


def hook_settings(config: ExtenderConfiguration, key: bytes) -> HookSettings:
    """Return what placeholder scripts need to call the hooks, with tokens of this key."""
    hooks = config.hooks
    return HookSettings(
        url=str(hooks.url or ""),
        wait_s=int(hooks.wait),
        token=lambda mark: hook_token(key, mark),
        warning_s=int(hooks.warning),
    )
