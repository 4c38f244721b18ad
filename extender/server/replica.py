"""One of several replicas: takes part in the leader election, and forwards calls while another replica leads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from extender.assembly.io_context import IoContext
from extender.certificates.tls.contexts import CallerTls
from extender.config.document import ExtenderConfiguration
from extender.config.serving import ServerTls
from extender.config.values import BindAddress
from extender.http import hooks, scheduling
from extender.http.forward import App, Forwarding, Peers
from extender.http.service import Check
from extender.http.service_gate import ServiceGate
from extender.kube.lease import LeaseLock
from extender.server.election import Candidate, Election

SCHEDULING_SLACK = 0.2
"""Seconds that are left to pass the leader's answer back before kube-scheduler gives up a `/bind`."""

HOOK_SLACK = 2.0
"""Seconds that the leader's answer to a hook may take beyond the longest wait."""


class Replica:
    """Implements `http.forward.LeaderAddresses`."""

    def __init__(self, config: ExtenderConfiguration, io_context: IoContext, service_gate: ServiceGate) -> None:
        settings = config.leader_election
        io_context.write_gate.share(settings.renew_deadline, settings.timing.margin)
        identity = f"{settings.identity or io_context.host}_{io_context.rng.getrandbits(64):016x}"
        self._config = config
        self._service_gate = service_gate
        self.election = Election(
            LeaseLock(io_context.kubernetes, settings.namespace, settings.lease_name),
            Candidate(identity, tuple(_addresses(config)), config.scheduler.name, io_context.process_lock),
            settings.timing,
            io_context.write_gate,
            elapsed=io_context.elapsed,
            clock=io_context.clock,
            rng=io_context.rng,
        )
        self.elected = asyncio.Event()
        """This process leads, or did."""

        authorities = settings.ca_file or (config.http.tls.client_ca_file if config.http.tls else None)
        self._peers = Peers(CallerTls(authorities, config.http.tls), settings.tls_server_name, io_context.peers)

    @property
    def here(self) -> bool:
        """Answer as `Leadership`."""
        return self.election.leading and self._service_gate.active and self._service_gate.scheduling.ready

    def address(self, endpoint: str) -> str:
        """Answer as `Leadership`."""
        leader = self.election.leader
        return "" if leader is None or leader.holder == self.election.candidate.identity else leader.address(endpoint)

    async def changes(self) -> None:
        """Wait as `Leadership`."""
        await self.election.changes()

    @property
    def known(self) -> bool:
        """Return whether a leader, or the lack of one, is known."""
        return self.election.known

    def wrap(self, app: App) -> App:
        """Forward calls for the leader to it."""
        longest = {
            "scheduling": self._config.http.bind_timeout - SCHEDULING_SLACK,
            "hooks": self._config.hooks.wait + HOOK_SLACK,
        }
        prefixes = {scheduling.PREFIX: "scheduling", hooks.PREFIX: "hooks"}
        return Forwarding(
            app, prefixes, self, self._peers, longest_s=longest, max_body=self._config.http.max_request_bytes
        )

    async def stand(self) -> None:
        """Run for election, and renew. Raises `Deposed`."""
        await self.election.campaign()
        self.elected.set()
        await self.election.reign()

    async def close(self) -> None:
        """Close what reaches other replicas."""
        await self._peers.close()

    def checks(self) -> Sequence[Check]:
        """Return the lines of `/readyz?verbose`."""
        election, leader = self.election, self.election.leader
        if election.leading:
            text = "this replica leads"
        elif leader is not None:
            text = f"{leader.holder} leads"
        else:
            text = "no leader" if election.known else "the Lease was not read yet"
        return [
            Check("lease", election.known, text),
            Check("lease-reached", not election.trouble, election.trouble, required=False),
        ]


def _addresses(config: ExtenderConfiguration) -> list[tuple[str, str]]:
    """Return the addresses at which other replicas reach the endpoints of this one."""
    host = config.leader_election.advertise or config.http.bind.host
    given: list[tuple[str, BindAddress | None, ServerTls | None]] = [
        ("scheduling", config.http.bind, config.http.tls),
        ("hooks", config.hooks.bind, config.hooks.tls),
    ]
    return [
        (endpoint, f"{'http' if tls is None else 'https'}://{BindAddress(host, bind.port)}")
        for endpoint, bind, tls in given
        if bind is not None
    ]
