"""Ping each address of slurmrestd, and ask the first one that answers for everything else."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import jwt

from extender.config.document import ExtenderConfiguration
from extender.doctor.facts import Address, SlurmFacts, Token
from extender.doctor.slurm_conf import from_slurmrestd
from extender.doctor.tools import NO_TOKEN, Tools
from extender.domain.ports import PortError
from extender.slurm.nodes import SlurmrestdNodes
from slurmclient import (
    API_VERSIONS,
    AuthenticationError,
    ConnectError,
    InvalidRequestError,
    NodeUpdate,
    NotFoundError,
    RefusedError,
    SlurmClient,
    SlurmError,
    UnsupportedError,
)

NO_SUCH_NODE = "slurm-extender-doctor-check"
"""slurmctld checks the rights of the user before it looks for the node (`proc_req.c: _slurm_rpc_update_node`), so an
update of a node that does not exist shows the rights, and changes nothing."""

NOT_ALLOWED = frozenset({2002, 2010})
"""ESLURM_ACCESS_DENIED, ESLURM_USER_ID_MISSING."""


async def gather_slurm(config: ExtenderConfiguration, tools: Tools) -> SlurmFacts:
    """Read everything that the token may see."""
    token = _read_token(config, tools)
    addresses = [await _address(url, tools, token) for url in config.slurm.addresses]
    facts = SlurmFacts(tuple(addresses), max(API_VERSIONS), token)
    good = next((one.url for one in addresses if not one.error), None)
    if token.error:
        return replace(facts, trouble=token.error)
    if good is None:
        refused = next((one.error for one in addresses if one.refused), "")
        trouble = refused or "no slurmrestd answers"
        refused_token = replace(token, accepted=False if refused else None, refusal=trouble)
        return replace(facts, token=refused_token, trouble=trouble)
    async with tools.slurm(good, tools.token) as client:
        facts = replace(facts, token=await _tried(client, token))
        if not facts.token.accepted:
            return replace(facts, trouble=facts.token.refusal)
        try:
            return await _read_rest(facts, client, config, tools)
        except (SlurmError, PortError) as error:
            return replace(facts, trouble=str(error))


def _read_token(config: ExtenderConfiguration, tools: Tools) -> Token:
    slurm = config.slurm
    sources = (("token", slurm.token), ("tokenFile", slurm.token_file), ("jwtKeyFile", slurm.jwt_key_file))
    source = next(name for name, value in sources if value is not None)
    try:
        text = tools.token.token()
    except AuthenticationError as error:
        missing = isinstance(error.__cause__, FileNotFoundError)
        return Token(source, error=str(error), remote=missing and not tools.in_a_pod)
    except jwt.InvalidKeyError as error:
        return Token(source, error=f"key file {slurm.jwt_key_file} cannot be used: {error}")
    try:
        claims = jwt.decode(text, options={"verify_signature": False, "verify_exp": False, "verify_iat": False})
    except jwt.InvalidTokenError:
        return Token(source)  # slurmctld judges it
    expires = claims.get("exp")
    return Token(
        source,
        owner=str(claims.get("sun") or ""),
        expires_at=float(expires) if isinstance(expires, int | float) else None,
    )


async def _address(url: str, tools: Tools, token: Token) -> Address:
    try:
        opened = tools.slurm(url, NO_TOKEN if token.error else tools.token)
    except ValueError as error:
        return Address(url, error=str(error), unusable_tls=True)
    async with opened as client:
        try:
            ping = await client.ping()
        except SlurmError as error:
            host = urlsplit(url).hostname or ""
            remote = not tools.in_a_pod and isinstance(error, ConnectError) and ".svc." in f"{host}."
            return Address(
                url,
                error=str(error),
                unsupported=isinstance(error, UnsupportedError),
                refused=isinstance(error, AuthenticationError) and not token.error,
                remote=remote,
            )
        responding = None if token.error else ping.responding
        return Address(url, str(ping.release), client.capabilities.api_version, ping.cluster, responding)


async def _tried(client: SlurmClient, token: Token) -> Token:
    try:
        await client.verify_token()
    except AuthenticationError as error:
        return replace(token, accepted=False, refusal=str(error))
    except SlurmError as error:
        return replace(token, refusal=str(error))
    token = replace(token, accepted=True)
    try:
        await client.update_node(NO_SUCH_NODE, NodeUpdate(comment="slurm-extender doctor"))
    except NotFoundError:
        return replace(token, operates=True)
    except InvalidRequestError as error:
        return replace(token, refusal=str(error))
    except RefusedError as error:
        denied = error.slurm_errno in NOT_ALLOWED
        return replace(token, operates=False if denied else None, refusal=str(error))
    except SlurmError as error:
        return replace(token, refusal=str(error))
    return replace(token, operates=True)


async def _read_rest(facts: SlurmFacts, client: SlurmClient, config: ExtenderConfiguration, tools: Tools) -> SlurmFacts:
    slurm = config.slurm
    began = tools.clock.wall()
    listed = await client.nodes()
    between = (began + tools.clock.wall()) / 2
    ahead = None if listed.last_update is None else listed.last_update - between
    adapter = SlurmrestdNodes(
        client,
        tools.clock,
        send_user_signal=slurm.send_user_signal,
        preempting_qos=frozenset(slurm.preempting_qos),
        default_partition=slurm.default_partition or "",
    )
    facts = replace(facts, ahead_s=ahead, snapshot=await adapter.snapshot())
    if client.capabilities.conf:
        conf = await client.conf()
        facts = replace(facts, conf=from_slurmrestd(conf.raw, "slurmrestd"))
    return replace(facts, records=len(await client.job_states()))
