"""Certificates to serve with, taken up again when their files change.

Mounted Secrets are swapped by a symlink and may be seen half written elsewhere; a pair is used only once a whole new
context could be made of it. Connections that exist keep what they were made with. The files are looked at in every
handshake: three calls of stat.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import structlog

from extender.certificates.tls.expiry import expiries, expiry
from extender.config.serving import ServerTls

_log = structlog.get_logger(__name__)

Stamp = tuple[tuple[int, int, int], ...]

RENEW = (
    "Clients that check it do not connect. Renew it: `slurm-extender generate certificates` does, and its CronJob says "
    "why it did not"
)


class TlsError(Exception):
    """The files cannot be served with; the text says which and why."""


def stamp_of(*files: str | None) -> Stamp:
    """Changes when a file does. Raises TlsError where one cannot be read."""
    stamps = []
    for file in files:
        if file is None:
            continue
        try:
            status = os.stat(file)
        except OSError as error:
            raise TlsError(f"TLS file {file} cannot be read: {error.strerror or error}") from error
        stamps.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(stamps)


class CallerTls:
    """Contexts to call with: a server is held to `ca_file` (`None`: the system's), `own` is shown to it."""

    def __init__(self, ca_file: str | None, own: ServerTls | None) -> None:
        self._files = (ca_file, own.certificate_file if own else None, own.key_file if own else None)

    @property
    def stamp(self) -> Stamp:
        """Changes when a file does. Raises TlsError."""
        return stamp_of(*self._files)

    def context(self) -> ssl.SSLContext:
        """A new one, of what the files hold now. Raises TlsError."""
        ca_file, certificate, key = self._files
        try:
            context = ssl.create_default_context(cafile=ca_file)
            if certificate is not None:
                context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise TlsError(f"TLS files {', '.join(filter(None, self._files))} cannot be used: {error}") from error
        return context


class ReloadingTls:
    """A context to serve with. `context` is given to the server once, and serves what the files hold at each handshake.

    `refused` is told OpenSSL's name of the fault of each handshake that fails. Raises TlsError where the files cannot
    be used at the start.
    """

    def __init__(self, files: ServerTls, refused: Callable[[str], None] = lambda _reason: None) -> None:
        self._files = files
        self._stamp: Stamp = self._check()
        self._trouble = ""
        self._expires_at: float | None = None
        self._authorities_end: float | None = None
        self._current = self._load()
        self.context = self._load()
        # Each handshake takes the newest context, client authorities included: those of a context can only be added to.
        self.context.sni_callback = self._choose
        self.context.sslobject_class = _telling(refused)

    @property
    def expires_at(self) -> float | None:
        """When the certificate that is served ends, in seconds since the epoch; changed files are taken up first."""
        self.refresh()
        return self._expires_at

    def fault(self, now: float) -> str:
        """What is wrong with what is served, and what helps; "" where nothing is. Changed files are taken up first."""
        self.refresh()
        if self._trouble:
            return f"the last good pair is served: {self._trouble}"
        files = self._files
        if self._expires_at is not None and self._expires_at <= now:
            return f"TLS certificate {files.certificate_file} {_ended(self._expires_at)}. {RENEW}"
        ends = self._authorities_end
        if ends is not None and ends <= now:
            return f"every TLS client authority of {files.client_ca_file} {_ended(ends)}. {RENEW}"
        return ""

    def refresh(self) -> None:
        """Take up changed files. Those that cannot be used are logged once, and the last good ones stay."""
        try:
            stamp = self._check()
            if stamp == self._stamp:
                self._trouble = ""
                return
            self._current = self._load()
        except TlsError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                _log.error("certificate_unusable", error=self._trouble)
            return
        self._stamp, self._trouble = stamp, ""
        _log.info("certificate_reloaded", file=self._files.certificate_file)

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        self.refresh()
        connection.context = self._current

    def _check(self) -> Stamp:
        return stamp_of(self._files.certificate_file, self._files.key_file, self._files.client_ca_file)

    def _load(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(files.certificate_file, files.key_file)
        except (OSError, ssl.SSLError) as error:
            raise TlsError(
                f"TLS certificate {files.certificate_file} with key {files.key_file} cannot be used: {_why(error)}"
            ) from error
        if files.client_ca_file is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                authorities = Path(files.client_ca_file).read_text(encoding="ascii")
                context.load_verify_locations(cadata=authorities)
                self._authorities_end = max(expiries(authorities), default=None)
            except (OSError, ValueError, ssl.SSLError) as error:
                raise TlsError(
                    f"TLS client authorities {files.client_ca_file} cannot be used: {_why(error)}"
                ) from error
        self._expires_at = self._read_expiry()
        return context

    def _read_expiry(self) -> float | None:
        try:
            return expiry(Path(self._files.certificate_file).read_text(encoding="ascii", errors="replace"))
        except OSError:
            return None


def _telling(refused: Callable[[str], None]) -> type[ssl.SSLObject]:
    """A side of a connection that tells why its handshake failed, which neither asyncio nor uvloop do."""

    class Telling(ssl.SSLObject):
        """What `wrap_bio` of the context makes."""

        def do_handshake(self) -> None:
            """As always."""
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                refused(str(error.reason))
                raise

    return Telling


def _ended(at: float) -> str:
    return f"ended on {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def _why(error: Exception) -> str:
    """In words: OpenSSL's are for those who know it."""
    said = str(error)
    if "KEY_VALUES_MISMATCH" in said:
        return f"the key is not that of the certificate, as when one was replaced and the other not yet ({said})"
    if "PEM" in said or "NO_CERTIFICATE" in said or "NO_START_LINE" in said:
        return f"it is no PEM, or half of one, as of a file that is being written ({said})"
    return said
