"""Configure TLS between the client and slurmrestd."""

from __future__ import annotations

import ssl
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Configure which servers the client trusts, and the certificate that it presents.

    Attributes:
        ca_file: certificates to trust instead of those of the system.
        certificate_file: the certificate chain of the client, for mutual TLS.
        key_file: its private key, if it is in another file.
        context: a complete context instead of the three above.
    """

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    context: ssl.SSLContext | None = None

    def ssl_context(self) -> ssl.SSLContext:
        """Build the context; reads the files.

        Raises:
            ValueError: a key without a certificate, or a file that cannot be read or used.
        """
        if self.context is not None:
            return self.context
        if self.key_file and not self.certificate_file:
            raise ValueError(f"TLS key file {self.key_file} was given without a certificate file")
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(
                f"TLS files (CA {self.ca_file}, certificate {self.certificate_file}) cannot be used: {error}"
            ) from error
        return context


def no_tls() -> ssl.SSLContext:
    """Return a context without certificates: loading those of the system takes time and no address is https."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
