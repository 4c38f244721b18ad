"""A TLS handshake in memory: what a caller would say of our certificate, in OpenSSL's own words."""

from __future__ import annotations

import ssl

from extender.config.serving import ServerTls


def believed(served: ServerTls, name: str, authority: str | None = None) -> str:
    """What who calls `name` ("": by no name) says of the certificate; "" where it believes.

    `authority` is the file with the caller's authorities; `None`: it trusts this very certificate, so that only its
    dates and names are judged.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = bool(name)
    try:
        server.load_cert_chain(served.certificate_file, served.key_file)
        client.load_verify_locations(authority or served.certificate_file)
    except (OSError, ssl.SSLError) as error:
        return str(error)
    if authority is None:
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname=name or None),
        server.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(_ROUNDS):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            except ssl.SSLError as error:
                return str(error)
            ends.remove(end)
        if not ends:
            return ""
    return "the handshake does not end"


_ROUNDS = 10
"""TLS 1.3 takes two."""
