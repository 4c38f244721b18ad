"""A certificate that is no use is said at the start and by `/readyz?verbose`, with what helps."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest
import trustme
from structlog.testing import capture_logs
from structlog.typing import EventDict

from extender.assembly.io_context import IoContext
from extender.config.document import ExtenderConfiguration
from extender.config.load import parse
from extender.config.values import BindAddress
from extender.server.http_frontend import HttpFrontend, http_frontend
from extender.server.life import StartError, serve
from extender.server.signal_handlers import SignalHandlers
from tests.builders.services import StillClock

ENDED = datetime(2020, 1, 2, 3, 4, tzinfo=UTC)
AUTHORITY = trustme.CA()


def a_configuration(folder: Path) -> ExtenderConfiguration:
    """Doors at ports that are free. The probes have another name for loopback, and so a door of their own."""
    tls = f"{{certificateFile: {folder}/tls.crt, keyFile: {folder}/tls.key}}"
    found = parse(
        "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: hush}\n"
        "hooks: {allocationProofs: unsigned}\n"
        f"http: {{tls: {tls}}}\nobservability: {{debugBind: null}}\n",
        "test",
    )
    others, probes = BindAddress("127.0.0.1", 0), BindAddress("localhost", 0)
    shown = found.observability.model_copy(update={"health_bind": probes, "metrics_bind": others})
    return found.model_copy(update={"http": found.http.model_copy(update={"bind": others}), "observability": shown})


def write(certificate: trustme.LeafCert, folder: Path) -> None:
    (folder / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    (folder / "tls.key").write_bytes(certificate.private_key_pem.bytes())


def io_context() -> IoContext:
    """What opening the doors needs of them."""
    return cast("IoContext", SimpleNamespace(clock=StillClock(), listen=None))


async def verbose(logs: list[EventDict]) -> str:
    """What the probes' door shows, whose address stands in the log."""
    [line] = [one for one in logs if one["event"] == "listening" and "observability.healthBind" in one["serves"]]
    async with httpx.AsyncClient(timeout=60) as http:
        return (await http.get(f"http://{line['at'][0]}/readyz?verbose")).text


async def test_an_ended_certificate_is_logged_at_the_start_and_shown_until_it_is_renewed(tmp_path: Path) -> None:
    write(AUTHORITY.issue_cert("127.0.0.1", not_before=ENDED.replace(year=2019), not_after=ENDED), tmp_path)
    with capture_logs() as logs:
        async with http_frontend(a_configuration(tmp_path), io_context()) as frontend:
            assert isinstance(frontend, HttpFrontend)
            said = await verbose(logs)
            [line] = [one for one in said.splitlines() if "certificate-http" in one]
            assert line.startswith("[-]certificate-http TLS certificate")
            assert "ended on 2020-01-02 03:04 UTC" in line
            assert "`slurm-extender generate certificates`" in line
            write(AUTHORITY.issue_cert("127.0.0.1"), tmp_path)
            assert "[+]certificate-http ok" in await verbose(logs)
    [logged] = [one for one in logs if one["event"] == "certificate_check_failed"]
    assert "ended on" in logged["error"]


async def test_a_good_certificate_is_no_news(tmp_path: Path) -> None:
    write(AUTHORITY.issue_cert("127.0.0.1"), tmp_path)
    with capture_logs() as logs:
        async with http_frontend(a_configuration(tmp_path), io_context()):
            assert "[+]certificate-http ok" in await verbose(logs)
    assert not [one for one in logs if one["event"] == "certificate_check_failed"]


async def test_half_of_a_pair_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    write(AUTHORITY.issue_cert("127.0.0.1"), tmp_path)
    (tmp_path / "tls.key").write_bytes(AUTHORITY.issue_cert("127.0.0.1").private_key_pem.bytes())
    with pytest.raises(StartError, match="the key is not that of the certificate"):
        await asyncio.wait_for(serve(a_configuration(tmp_path), io_context(), SignalHandlers()), 30)
