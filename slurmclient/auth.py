"""Provide tokens for slurmrestd.

slurmrestd expects a JSON Web Token in `X-SLURM-USER-TOKEN`; slurmctld checks it (auth/jwt). The token comes from
`scontrol token`, from a file that another program renews, or is minted here from the HS256 key of the cluster. That key
gives the rights of root on the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from slurmclient.errors import AuthenticationError


class TokenSource(Protocol):
    """Provide a token before each request."""

    def token(self) -> str:
        """Return the token to send now.

        Raises:
            AuthenticationError: there is none.
        """
        ...

    def renew(self, refused: str) -> bool:
        """Note that Slurm refused this token. Return whether another one is available now."""
        ...


@dataclass(frozen=True, slots=True)
class StaticToken:
    """Provide one token for the life of the client; also in the form that `scontrol token` prints (`SLURM_JWT=...`)."""

    value: str = field(repr=False)

    def token(self) -> str:
        """Return the token."""
        return _clean(self.value, "the token given")

    def renew(self, refused: str) -> bool:
        """Return False: there is no other token."""
        return False


class TokenFile:
    """Provide the token from a file that another program renews, such as a mounted Secret.

    The file is read again when its inode, size or time of change differs (Secrets are replaced by a symlink), and after
    a refusal.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int, int] | None = None
        self._token = ""

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"

    def token(self) -> str:
        """Return the token that is in the file now.

        Raises:
            AuthenticationError: the file cannot be read, and was never read before, or holds no token.
        """
        try:
            status = self._path.stat()
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            if stamp != self._stamp:
                self._token = _clean(
                    self._path.read_text(encoding="utf-8", errors="replace"), f"token file {self._path}"
                )
                self._stamp = stamp
        except OSError as error:
            # A renewal that is not atomic leaves a gap; the token read last is still the best one.
            if not self._token:
                raise AuthenticationError(
                    f"token file {self._path} cannot be read: {error.strerror or error}"
                ) from error
        return self._token

    def renew(self, refused: str) -> bool:
        """Read the file again."""
        self._stamp = None
        return self.token() != refused


class MintedToken:
    """Mint tokens from the key of `AuthAltParameters=jwt_key=`.

    Args:
        key_file: the file with the HS256 key, as bytes; read again for each token, so that a new key is used.
        user: the Slurm user of the token (claim `sun`).
        lifetime_s: how long a token lives; a new one is minted when a quarter of that is left.
        clock: epoch seconds.
    """

    def __init__(
        self,
        key_file: str | Path,
        user: str,
        *,
        lifetime_s: int = 1800,
        clock: Callable[[], float] = time.time,  # noqa: TID251 - a library has no port to take the wall clock from
    ) -> None:
        if lifetime_s < 4:
            raise ValueError(f"lifetime_s={lifetime_s}: a token must live for at least 4 seconds")
        if not user:
            raise ValueError("user='': a token needs the name of a Slurm user")
        # PyJWT imports cryptography where it is installed. That takes long, and HS256 does not need it.
        from jwt import encode  # noqa: PLC0415

        self._encode = encode
        self._key_file = Path(key_file)
        self._user = user
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._token = ""
        self._renew_at = 0.0

    def __repr__(self) -> str:
        return f"MintedToken({str(self._key_file)!r}, user={self._user!r})"

    def token(self) -> str:
        """Return a token that lives for at least another quarter of its lifetime.

        Raises:
            AuthenticationError: the key file cannot be read or is empty.
        """
        now = self._clock()
        if not self._token or now >= self._renew_at or now < self._renew_at - self._lifetime_s:
            self._mint(now)
        return self._token

    def renew(self, refused: str) -> bool:
        """Mint a new one, once for a refused token: the key or the clock may have changed."""
        if refused == self._token:
            self._mint(self._clock())
        return self._token != refused

    def _mint(self, now: float) -> None:
        try:
            key = self._key_file.read_bytes()
        except OSError as error:
            raise AuthenticationError(f"key file {self._key_file} cannot be read: {error.strerror or error}") from error
        if not key:
            raise AuthenticationError(f"key file {self._key_file} is empty")
        claims = {"iat": int(now), "exp": int(now) + self._lifetime_s, "sun": self._user}
        self._token = self._encode(claims, key, algorithm="HS256")
        self._renew_at = now + self._lifetime_s * 3 / 4


def _clean(text: str, where: str) -> str:
    token = text.strip().removeprefix("SLURM_JWT=").strip()
    if not token:
        raise AuthenticationError(f"{where} is empty")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise AuthenticationError(f"{where} does not contain a token: it has white space or control characters inside")
    return token
