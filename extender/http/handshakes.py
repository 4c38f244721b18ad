"""Says why callers fail before their first request: asyncio ends a connection whose handshake fails without a word."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import structlog

_log = structlog.get_logger(__name__)

LOG_EVERY_S = 60.0
"""Of each reason one line in this time: kube-scheduler tries every second."""

MEANING: Mapping[str, str] = {
    "HTTP_REQUEST": "a client uses plain http on an address that serves https. If it is kube-scheduler, its urlPrefix "
    "has to begin with https://; enableHTTPS does not change it",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the caller presents no certificate, and clientCaFile requires one. "
    "If that is kube-scheduler, its tlsConfig needs certFile and keyFile",
    "CERTIFICATE_VERIFY_FAILED": "the caller's certificate expired, or is not signed by an authority of clientCaFile",
    "TLSV1_ALERT_UNKNOWN_CA": "the caller does not trust the authority of the served certificate. If that is "
    "kube-scheduler, its tlsConfig needs that authority as caFile",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the caller rejects the served certificate: another name, or it expired",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the caller reports that the served certificate has expired",
}
"""By OpenSSL's name of the fault (`sslerr.h`)."""


class RefusedHandshakes:
    """Log the failed handshakes of one listener."""

    def __init__(self, at: Sequence[str], serves: Sequence[str]) -> None:
        self._at = list(at)
        self._serves = list(serves)
        self._notified: dict[str, float] = {}
        self._since: Counter[str] = Counter()

    def __call__(self, reason: str) -> None:
        """Record a handshake that failed for this reason."""
        now = asyncio.get_running_loop().time()
        self._since[reason] += 1
        last = self._notified.get(reason)
        if last is not None and now - last < LOG_EVERY_S:
            return
        self._notified[reason] = now
        _log.warning(
            "tls_handshake_failed",
            at=self._at,
            serves=self._serves,
            reason=reason,
            why=MEANING.get(reason, "the TLS handshake failed"),
            times=self._since.pop(reason),
        )
