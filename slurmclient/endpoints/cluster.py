"""Calls about the cluster as a whole: ping, partitions, reservations, licenses, accounting."""

from __future__ import annotations

from typing import Final

from slurmclient.call import Agreement, Call, read_listing, request
from slurmclient.classification import Effect
from slurmclient.errors import UnsupportedError
from slurmclient.exchange import Request
from slurmclient.models.accounting import Association, Share
from slurmclient.models.controller import Diagnostics, License, Ping, SlurmConf
from slurmclient.models.listing import Listing
from slurmclient.models.partition import Partition, Reservation
from slurmclient.wire.accounting import read_association, read_share
from slurmclient.wire.controller import read_diagnostics, read_license, read_ping, read_slurm_conf
from slurmclient.wire.envelope import Envelope
from slurmclient.wire.fields import listing, mapping, text
from slurmclient.wire.partition import read_reservation


def _ping(agreement: Agreement, envelope: Envelope) -> Ping:
    controllers = read_listing("pings", agreement.codec.read_controller, "hostname")(agreement, envelope)
    return read_ping(envelope, controllers.items)


def _shares(agreement: Agreement, envelope: Envelope) -> Listing[Share]:
    shares = mapping(envelope.payload, "shares")
    read = listing(shares, "shares", read_share, name=lambda raw: text(raw, "name"), endpoint=envelope.endpoint)
    plugin = mapping(mapping(envelope.payload, "meta"), "plugin")
    if not read and plugin.get("accounting_storage") == "":
        raise UnsupportedError("there are no shares: the cluster has no slurmdbd", endpoint=envelope.endpoint)
    return read


PING: Final[Call[Ping]] = Call(Effect.READ, lambda agreement: request("GET", agreement.path("ping")), _ping)

DIAG: Final[Call[Diagnostics]] = Call(
    Effect.READ,
    lambda agreement: request("GET", agreement.path("diag")),
    lambda agreement, envelope: read_diagnostics(envelope.payload),
)


def _request_conf(agreement: Agreement) -> Request:
    agreement.need(agreement.capabilities.conf, "slurm.conf can be read from v0.0.45 on")
    return request("GET", agreement.path("conf"))


CONF: Final[Call[SlurmConf]] = Call(
    Effect.READ, _request_conf, lambda agreement, envelope: read_slurm_conf(envelope.payload)
)

PARTITIONS: Final[Call[Listing[Partition]]] = Call(
    Effect.READ,
    lambda agreement: request("GET", agreement.path("partitions")),
    lambda agreement, envelope: read_listing("partitions", agreement.codec.read_partition, "name")(agreement, envelope),
)

RESERVATIONS: Final[Call[Listing[Reservation]]] = Call(
    Effect.READ,
    lambda agreement: request("GET", agreement.path("reservations")),
    read_listing("reservations", read_reservation, "name"),
)

LICENSES: Final[Call[Listing[License]]] = Call(
    Effect.READ,
    lambda agreement: request("GET", agreement.path("licenses")),
    read_listing("licenses", read_license, "LicenseName"),
)

SHARES: Final[Call[Listing[Share]]] = Call(
    Effect.READ, lambda agreement: request("GET", agreement.path("shares")), _shares
)

ASSOCIATIONS: Final[Call[Listing[Association]]] = Call(
    Effect.READ,
    lambda agreement: request("GET", agreement.database_path("associations")),
    read_listing("associations", read_association, "account"),
    missing="this slurmrestd does not serve slurmdbd (it runs with -s slurmctld, or the cluster has no slurmdbd)",
)
