"""Read the end of a certificate's validity from PEM: the standard library decodes only a peer's certificate.

RFC 5280, 4.1: `Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { [0] version, serial, signature, issuer, validity
SEQUENCE { notBefore, notAfter } ... } ... }`; a time is UTCTime with a year from 1950 to 2049, or GeneralizedTime.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
VERSION = 0xA0
UTC_TIME = 0x17


def expiry(pem: str) -> float | None:
    """Return the end of the first certificate in seconds since the epoch; `None`: it cannot be read."""
    begin, end = pem.find(BEGIN), pem.find(END)
    if not 0 <= begin < end:
        return None
    try:
        certificate = _children(ssl.PEM_cert_to_DER_cert(pem[begin : end + len(END)] + "\n"))[0][1]
        body = _children(_children(certificate)[0][1])
        validity = body[4 if body[0][0] == VERSION else 3][1]
        tag, text = _children(validity)[1]
        return _time(tag, text.decode("ascii"))
    except (ValueError, IndexError):
        return None


def expiries(pem: str) -> list[float]:
    """Return the ends of all certificates of a file that can be read."""
    found = (expiry(BEGIN + rest) for rest in pem.split(BEGIN)[1:])
    return [end for end in found if end is not None]


def _children(data: bytes) -> list[tuple[int, bytes]]:
    """Return tags and contents of the DER values in `data`. Raises IndexError."""
    found = []
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[at : at + size], "big")
            at += size
        found.append((tag, data[at : at + length]))
        at += length
    return found


def _time(tag: int, text: str) -> float:
    if tag == UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
