"""Create TLS contexts, and reload them when their files change.

Mounted Secrets are swapped by a symlink; other files may be read half written. A pair is used only once a complete new
context could be created from it. Existing connections keep their certificates. Every handshake checks the files, by
three calls of stat.
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
    "Clients that verify it do not connect. Renew it by `slurm-extender generate certificates`, and see the log of its "
    "CronJob"
)


class TlsError(Exception):
    """The files cannot be used; the text says which and why."""


def stamp_of(*files: str | None) -> Stamp:
    """Return a stamp that changes with a file. Raises TlsError if one cannot be read."""
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
    """Contexts for clients: `ca_file` verifies the server (`None`: the system's), `own` is the client certificate."""

    def __init__(self, ca_file: str | None, own: ServerTls | None) -> None:
        self._files = (ca_file, own.certificate_file if own else None, own.key_file if own else None)

    @property
    def stamp(self) -> Stamp:
        """Return a stamp that changes with a file. Raises TlsError."""
        return stamp_of(*self._files)

    def context(self) -> ssl.SSLContext:
        """Create a context from the current files. Raises TlsError."""
        ca_file, certificate, key = self._files
        try:
            context = ssl.create_default_context(cafile=ca_file)
            if certificate is not None:
                context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise TlsError(f"TLS files {', '.join(filter(None, self._files))} cannot be used: {error}") from error
        return context


class ReloadingTls:
    """A context for a server. `context` is given to the server once, and serves the current files at each handshake.

    `refused` receives OpenSSL's name of the error of each failed handshake. Raises TlsError if the files cannot be used
    at the start.
    """

    def __init__(self, files: ServerTls, refused: Callable[[str], None] = lambda _reason: None) -> None:
        self._files = files
        self._stamp: Stamp = self._check()
        self._trouble = ""
        self._expires_at: float | None = None
        self._authorities_end: float | None = None
        self._current = self._load()
        self.context = self._load()
        # Each handshake uses the newest context, with its client authorities: from a context they cannot be removed.
        self.context.sni_callback = self._choose
        self.context.sslobject_class = _reporting(refused)

    @property
    def expires_at(self) -> float | None:
        """Return when the served certificate ends, in seconds since the epoch; changed files are loaded first."""
        self.refresh()
        return self._expires_at

    def fault(self, now: float) -> str:
        """Return the fault of the served certificate and its fix; "": none. Changed files are loaded first."""
        self.refresh()
        if self._trouble:
            return f"the last valid pair is served: {self._trouble}"
        files = self._files
        if self._expires_at is not None and self._expires_at <= now:
            return f"TLS certificate {files.certificate_file} {_ended(self._expires_at)}. {RENEW}"
        ends = self._authorities_end
        if ends is not None and ends <= now:
            return f"every TLS client authority of {files.client_ca_file} {_ended(ends)}. {RENEW}"
        return ""

    def refresh(self) -> None:
        """Load changed files. Unusable ones are logged once, and the last good ones stay."""
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


def _reporting(refused: Callable[[str], None]) -> type[ssl.SSLObject]:
    """Return a class of connections that report why a handshake failed, which neither asyncio nor uvloop do."""

    class ReportingObject(ssl.SSLObject):
        """A connection, created by `wrap_bio` of the context."""

        def do_handshake(self) -> None:
            """Continue the handshake, and report its error."""
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                refused(str(error.reason))
                raise

    return ReportingObject


def _ended(at: float) -> str:
    return f"ended on {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def _why(error: Exception) -> str:
    """Explain an error of OpenSSL."""
    error_text = str(error)
    if "KEY_VALUES_MISMATCH" in error_text:
        return f"the key is not that of the certificate; only one of them may have been replaced yet ({error_text})"
    if "PEM" in error_text or "NO_CERTIFICATE" in error_text or "NO_START_LINE" in error_text:
        return f"it is not PEM, or incomplete, as a file that is being written ({error_text})"
    return error_text
