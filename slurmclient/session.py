"""Execute calls: negotiate the API version, add the identity, renew the token, and detect outages of slurmctld."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypedDict, TypeVar, Unpack

from slurmclient.auth import TokenSource
from slurmclient.call import Agreement, Call
from slurmclient.capabilities import API_VERSIONS, OLDEST_RELEASE, Capabilities, capabilities_of
from slurmclient.classification import AMBIGUOUS, Effect
from slurmclient.endpoints.cluster import PING
from slurmclient.errors import (
    AuthenticationError,
    ConnectError,
    ControllerUnavailableError,
    InvalidRequestError,
    OutcomeUnknownError,
    ProtocolError,
    RefusedError,
    SlurmError,
    TransportError,
    UnsupportedError,
)
from slurmclient.exchange import Reply, Request, Sender, path_of
from slurmclient.garbage_collection import GarbageCollectionPause
from slurmclient.retry import Attempts, RetryPolicy
from slurmclient.wire import CODECS
from slurmclient.wire.controller import read_ping
from slurmclient.wire.envelope import LARGE_BYTES, Envelope, open_envelope
from slurmclient.wire.list_cache import ListCache

T = TypeVar("T")


class CallOptions(TypedDict, total=False):
    """Name the options that every method of the client accepts.

    Attributes:
        as_user: the Slurm user to act as in this call; None: the user of the client.
        deadline_s: seconds for the whole call, repetitions included; None: as the retry policy says.
        repeat_within_s: seconds after which a failed request is not sent again; None: as the retry policy says. For
            changes of a job by its id: slurmctld may have lost the job meanwhile, and given the id to another one.
    """

    as_user: str | None
    deadline_s: float | None
    repeat_within_s: float | None


class Session:
    """Execute calls on one cluster; safe for concurrent calls.

    Args:
        sender: exchanges requests for replies.
        token: provides tokens.
        user: the Slurm user to act as; None: the owner of the token.
        policy: limits attempts and pauses.
        rng: for pauses.
        versions: the API versions to choose from, the best first.
    """

    def __init__(
        self,
        sender: Sender,
        token: TokenSource,
        *,
        user: str | None,
        policy: RetryPolicy,
        rng: random.Random,
        versions: Sequence[int] = API_VERSIONS,
    ) -> None:
        if user is not None:
            _check_user(user)
        self._sender = sender
        self._token = token
        self._user = user
        self._policy = policy
        self._rng = rng
        self._versions = versions
        self._lock = asyncio.Lock()
        self._agreement: Agreement | None = None
        self._outdated = False
        self._cluster = ""
        self._list_caches: dict[str, ListCache] = {}
        """By endpoint."""

    @property
    def agreement(self) -> Agreement:
        """Return the result of the last negotiation.

        Raises:
            RuntimeError: there was none.
        """
        if self._agreement is None:
            raise RuntimeError(
                "nothing has been negotiated with slurmrestd yet; await negotiate() or any other call first"
            )
        return self._agreement

    @property
    def address(self) -> str:
        """Return the address in use."""
        return self._sender.address

    async def aclose(self) -> None:
        """Close every connection."""
        await self._sender.aclose()

    async def negotiate(self, **options: Unpack[CallOptions]) -> Capabilities:
        """Negotiate the API version again."""
        user, deadline, attempts = self._options(Effect.READ, options)
        while True:
            try:
                return (await self._negotiate(self._agreement, user, deadline)).capabilities
            except SlurmError as error:
                await attempts.pause_after(error)

    async def call(self, call: Call[T], **options: Unpack[CallOptions]) -> T:
        """Execute one call."""
        user, deadline, attempts = self._options(call.effect, options)
        while True:
            try:
                with GarbageCollectionPause() as pause:
                    return await self._attempt(call, user, deadline, pause)
            except SlurmError as error:
                await attempts.pause_after(error)

    async def _attempt(self, call: Call[T], user: str | None, deadline: float, pause: GarbageCollectionPause) -> T:
        agreement = self._agreement
        if agreement is None or self._outdated:
            agreement = await self._agree(agreement, user, deadline)
        renegotiated = renewed = False
        while True:
            request = call.write(agreement)
            token = self._token.token()
            reply = await self._exchange(request, token, user, call.effect, deadline)
            envelope, cache = await self._open(call, request, reply, pause)
            self._outdated |= envelope.release not in (None, agreement.capabilities.release)
            if self._is_another(envelope.cluster):
                self._outdated = True  # nothing more is sent before a ping shows which cluster answers
                kind = ProtocolError if call.effect is Effect.READ else OutcomeUnknownError
                raise kind(self._another(envelope.cluster), endpoint=request.endpoint, http_status=envelope.status)
            if envelope.unrouted:
                # Slurm was upgraded or downgraded, or 24.11.0 to .2 lost a valid path for a moment. The request was not
                # executed.
                if renegotiated:
                    raise UnsupportedError(call.missing, endpoint=request.endpoint, http_status=envelope.status)
                renegotiated = True
                agreement = await self._agree(agreement, user, deadline)
                continue
            if call.accept(envelope):
                return await _read(reply, call, agreement, envelope, cache)
            if envelope.from_gateway:
                self._sender.leave(reply.address)  # slurmrestd behind it is away, another address may have one
            try:
                envelope.check(call.effect, call.not_found)
            except AuthenticationError:
                if renewed or not self._token.renew(token):
                    raise
                renewed = True
                continue
            except ControllerUnavailableError:
                self._sender.leave(reply.address)
                raise
            except RefusedError as error:
                if envelope.number not in AMBIGUOUS:
                    raise
                ping = functools.partial(self._responding, agreement, token, user, deadline)
                raise self._leaving(reply, await _explain(error, call.effect, ping)) from error
            return await _read(reply, call, agreement, envelope, cache)

    def _leaving(self, reply: Reply, why: SlurmError) -> SlurmError:
        """Have another address asked next where slurmctld does not answer this one. Return the error."""
        if isinstance(why, ControllerUnavailableError):
            self._sender.leave(reply.address)
        return why

    async def _agree(self, seen: Agreement | None, user: str | None, deadline: float) -> Agreement:
        """Negotiate before a call. If this fails, the call itself was not sent."""
        try:
            return await self._negotiate(seen, user, deadline)
        except TransportError as error:
            raise ConnectError(
                f"no API version could be negotiated: {error.message}", endpoint=error.endpoint
            ) from error

    async def _negotiate(self, seen: Agreement | None, user: str | None, deadline: float) -> Agreement:
        """Find the highest common version, unless another call has done so since `seen`."""
        try:
            async with asyncio.timeout_at(deadline), self._lock:
                if self._agreement is seen or self._agreement is None:
                    self._agreement = await self._probe(user, deadline)
                    self._cluster = self._cluster or self._agreement.cluster
                    self._outdated = False
                return self._agreement
        except TimeoutError as error:
            raise ConnectError("the deadline passed while the API version was negotiated") from error

    async def _probe(self, user: str | None, deadline: float) -> Agreement:
        renewed = False
        for version in self._versions:
            codec = CODECS[version]
            request = Request("GET", path_of("slurm", codec.label, "ping"))
            token = self._token.token()
            envelope = _opened(request, await self._exchange(request, token, user, Effect.READ, deadline))
            if envelope.status in (401, 511) and not renewed and self._token.renew(token):
                renewed = True
                token = self._token.token()
                envelope = _opened(request, await self._exchange(request, token, user, Effect.READ, deadline))
            if envelope.unrouted:
                continue
            envelope.check(Effect.READ)
            if self._is_another(envelope.cluster):
                raise ConnectError(self._another(envelope.cluster), endpoint=request.endpoint)
            release = read_ping(envelope, ()).release
            if release < OLDEST_RELEASE:
                raise UnsupportedError(
                    f"this is Slurm {release}; {OLDEST_RELEASE} is the oldest that can be used",
                    endpoint=request.endpoint,
                )
            return Agreement(codec, capabilities_of(version, release), envelope.cluster)
        tried = ", ".join(CODECS[version].label for version in self._versions)
        raise UnsupportedError(
            f"slurmrestd at {self.address} serves none of {tried}; is it slurmrestd of Slurm {OLDEST_RELEASE} or newer?"
        )

    def _is_another(self, cluster: str) -> bool:
        """Return whether this is not the first cluster that answered: the address now leads to another one."""
        return bool(cluster and self._cluster) and cluster != self._cluster

    def _another(self, cluster: str) -> str:
        return f"the Slurm cluster {cluster} answers, not {self._cluster}"

    async def _exchange(self, request: Request, token: str, user: str | None, effect: Effect, deadline: float) -> Reply:
        headers = {"X-SLURM-USER-TOKEN": token}
        if user is not None:
            headers["X-SLURM-USER-NAME"] = user
        try:
            return await self._sender.send(request, headers, deadline)
        except ConnectError:
            raise
        except TransportError as error:
            if effect is Effect.READ:
                raise
            raise OutcomeUnknownError(
                f"no answer to a request that may have been carried out: {error.message}", endpoint=request.endpoint
            ) from error

    async def _open(
        self, call: Call[T], request: Request, reply: Reply, pause: GarbageCollectionPause
    ) -> tuple[Envelope, ListCache | None]:
        if not _large(reply):
            return _opened(request, reply), None
        pause.begin()
        if not call.listed:
            return await asyncio.to_thread(_opened, request, reply), None
        cache = self._list_caches.setdefault(request.endpoint, ListCache(call.listed))
        parts = (request.endpoint, reply.status, reply.content_type, reply.body)
        return await asyncio.to_thread(cache.open, *parts), cache

    async def _responding(self, agreement: Agreement, token: str, user: str | None, deadline: float) -> bool:
        request = PING.write(agreement)
        envelope = _opened(request, await self._exchange(request, token, user, Effect.READ, deadline))
        envelope.check(Effect.READ)
        return PING.read(agreement, envelope).responding

    def _options(self, effect: Effect, options: CallOptions) -> tuple[str | None, float, Attempts]:
        """Return the user, the deadline and the attempts of a call."""
        as_user, clock = options.get("as_user"), asyncio.get_running_loop().time
        if as_user is not None:
            _check_user(as_user)
        whole_s, repeat_s = options.get("deadline_s"), options.get("repeat_within_s")
        for key, seconds in (("deadline_s", whole_s), ("repeat_within_s", repeat_s)):
            if seconds is not None and not seconds > 0:
                raise InvalidRequestError(f"{key}={seconds}: seconds greater than 0")
        deadline = clock() + (whole_s or self._policy.deadline_s)
        until = deadline if repeat_s is None else clock() + repeat_s
        attempts = Attempts(self._policy, effect, min(deadline, until), clock=clock, rng=self._rng)
        return as_user or self._user, deadline, attempts


def _large(reply: Reply) -> bool:
    return len(reply.body) > LARGE_BYTES


def _opened(request: Request, reply: Reply) -> Envelope:
    return open_envelope(request.endpoint, reply.status, reply.content_type, reply.body)


async def _read(reply: Reply, call: Call[T], agreement: Agreement, envelope: Envelope, cache: ListCache | None) -> T:
    if not _large(reply):
        return call.read(agreement, envelope)
    return await asyncio.to_thread(_read_and_free, call, agreement, envelope, cache)


def _read_and_free(call: Call[T], agreement: Agreement, envelope: Envelope, cache: ListCache | None) -> T:
    try:
        result = call.read(agreement, envelope)
        if cache is not None:
            cache.keep(envelope)
        return result
    finally:
        envelope.free()


async def _explain(error: RefusedError, effect: Effect, responding: Callable[[], Awaitable[bool]]) -> SlurmError:
    """Distinguish a refusal from an outage of slurmctld: slurmrestd reports both by the same number."""
    if effect is Effect.READ:
        # No release refuses a read with these numbers.
        why = "slurmctld was down, or has just come back"
    else:
        why = "slurmctld does not answer"
        try:
            if await responding():
                return error
        except SlurmError as failure:
            why = f"slurmctld could not be asked ({failure.message})"
    return ControllerUnavailableError(
        why,
        endpoint=error.endpoint,
        http_status=error.http_status,
        slurm_errno=error.slurm_errno,
        description=error.description,
        source=error.source,
    )


def _check_user(user: str) -> None:
    if not user or not user.isprintable() or not user.isascii() or " " in user:
        raise InvalidRequestError(f"Slurm user {user!r}: a login name, ASCII without white space")
