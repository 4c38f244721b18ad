"""Calls about nodes."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from slurmclient.call import Agreement, Call, missing_object, read_listing, read_nothing, request
from slurmclient.classification import Effect
from slurmclient.errors import InvalidRequestError, NotFoundError, ProtocolError
from slurmclient.exchange import Request
from slurmclient.models.listing import Listing
from slurmclient.models.node import NewNode, Node, NodeUpdate
from slurmclient.number import encode_time
from slurmclient.wire.envelope import Envelope
from slurmclient.wire.node import read_node, write_node_update

# ESLURM_INVALID_NODE_NAME: "no such node" where a node is asked for, a refusal where a job names one.
_NO_SUCH_NODE: Final = frozenset({2018})

# slurmrestd guesses the type of a path segment before it matches it, so that 007, 1e3 or null do not stay text
# (slurmrestd/operations.c, common/data.c). Such names travel in a body or are looked up in the whole list.
_GUESSED: Final = re.compile(
    r"[-+]?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?|0x[0-9a-f]+|null|~|true|false|yes|no|on|off|[-+]?inf(inity)?|nan",
    re.IGNORECASE | re.ASCII,
)

_read_nodes = read_listing("nodes", read_node, "name")

NODES: Final[Call[Listing[Node]]] = Call(
    Effect.READ, lambda agreement: request("GET", agreement.path("nodes")), _read_nodes, listed="nodes"
)


def nodes_if_changed(since: int) -> Call[Listing[Node] | None]:
    """Read every node unless none changed."""

    def write(agreement: Agreement) -> Request:
        # Before 26.05.3 the condition makes slurmrestd fail whenever nodes changed and partitions did not.
        able = agreement.capabilities.nodes_update_time
        query = (("update_time", encode_time(since)),) if able else ()
        return request("GET", agreement.path("nodes"), query=query)

    def read(agreement: Agreement, envelope: Envelope) -> Listing[Node] | None:
        return None if envelope.unchanged else _read_nodes(agreement, envelope)

    return Call(Effect.READ, write, read, listed="nodes")


def node(name: str) -> Call[Node]:
    """Read one node."""
    _check_name(name)
    guessed = _GUESSED.fullmatch(name) is not None

    def write(agreement: Agreement) -> Request:
        return request("GET", agreement.path("nodes") if guessed else agreement.path("node", name))

    def read(agreement: Agreement, envelope: Envelope) -> Node:
        if envelope.failed:
            raise NotFoundError(
                f"no node {name!r}",
                endpoint=envelope.endpoint,
                http_status=envelope.status,
                description=envelope.errors[0].description,
                source=envelope.errors[0].source,
            )
        nodes = _read_nodes(agreement, envelope)
        for one in nodes:
            if one.name == name:
                return one
        if guessed and not nodes.unreadable:
            raise NotFoundError(f"no node {name!r} among {len(nodes)}", endpoint=envelope.endpoint)
        if nodes.unreadable:
            raise ProtocolError(f"node {name!r} cannot be read: {nodes.unreadable[0].why}", endpoint=envelope.endpoint)
        raise missing_object(f"node {name!r}", envelope)

    return Call(
        Effect.READ,
        write,
        read,
        # HTTP 200 with an error numbered 0 is how every release says "no such node".
        accept=lambda envelope: envelope.status == 200 and bool(envelope.errors) and envelope.number == 0,
        not_found=_NO_SUCH_NODE,
    )


def update_node(name: str, update: NodeUpdate) -> Call[None]:
    """Change a node."""
    _check_name(name)
    body = write_node_update(update)

    def write(agreement: Agreement) -> Request:
        _check_topology(agreement, update)
        if _GUESSED.fullmatch(name) and agreement.capabilities.bulk_nodes:
            return request("POST", agreement.path("nodes"), body={"name": [name], **body})
        return request("POST", agreement.path("node", name), body=body)

    return Call(Effect.CHANGE, write, read_nothing, not_found=_NO_SUCH_NODE)


def update_nodes(names: Collection[str], update: NodeUpdate) -> Call[None]:
    """Change several nodes."""
    for name in names:
        _check_name(name)
    body: dict[str, object] = {"name": list(names), **write_node_update(update)}

    def write(agreement: Agreement) -> Request:
        _check_topology(agreement, update)
        agreement.need(agreement.capabilities.bulk_nodes, "changing several nodes at once needs Slurm 24.11")
        return request("POST", agreement.path("nodes"), body=body)

    return Call(Effect.CHANGE, write, read_nothing, not_found=_NO_SUCH_NODE)


def new_node(new: NewNode) -> Call[None]:
    """Create a node. A second one of the same name is refused (2168), so a repetition does no harm."""
    if _GUESSED.fullmatch(new.name):
        raise InvalidRequestError(
            f"node name {new.name!r}: slurmrestd takes it for a number or a constant, so that it could not be deleted"
        )

    def write(agreement: Agreement) -> Request:
        agreement.need(agreement.capabilities.new_node, "new nodes need v0.0.44 (Slurm 25.11)")
        return request("POST", agreement.path("new", "node"), body={"node_conf": new.conf()})

    return Call(Effect.CHANGE, write, read_nothing)


def delete_node(name: str) -> Call[None]:
    """Delete a node."""
    _check_name(name)
    if _GUESSED.fullmatch(name):
        raise InvalidRequestError(f"node name {name!r}: slurmrestd takes it for a number or a constant, not for a name")
    return Call(
        Effect.CHANGE,
        lambda agreement: request("DELETE", agreement.path("node", name)),
        read_nothing,
        not_found=_NO_SUCH_NODE,
    )


def _check_topology(agreement: Agreement, update: NodeUpdate) -> None:
    # An older parser drops the key with a warning, and answers that all is well.
    able = update.topology is None or agreement.capabilities.node_topology
    agreement.need(able, "changing a node's topology needs v0.0.43 (Slurm 25.05)")


def _check_name(name: str) -> None:
    # slurmctld expands a hostlist wherever it takes a node's name: "n[1-9]" would drain nine.
    if not name or re.search(r"[\[\],\s/\0]", name):
        raise InvalidRequestError(f"node name {name!r}: one plain name, without '[', ']', ',', '/' or white space")
