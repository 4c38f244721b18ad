"""The connection to the API server: authentication, TLS, raw requests and raw watches.

The one file that imports the kubernetes package. Of it only the configuration loaders and the
raw transport are used (kubernetes.aio 37): its models cost half a millisecond an object and reject a page for one odd
field, its watch parses every line twice, and its raw calls do not raise on 4xx and 5xx, so the status is checked here.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import InClusterConfigLoader
from kubernetes.aio.config.kube_config import load_kube_config, load_kube_config_from_dict
from multidict import CIMultiDict
from pydantic_core import from_json

from extender import __version__
from extender.kube.answers import (
    BOUNDS,
    REDIRECTS,
    ResponseLimits,
    no_redirects,
    read_body,
    read_lines,
    redirected,
    text_of,
)
from extender.kube.channels import Channels
from extender.kube.errors import ApiError, ApiUnavailable, OutcomeUnknown, Throttled, refused
from extender.kube.guard import Guard, guarded, guarded_by, was_not_allowed
from extender.kube.wire.stream import Refusal, pause_of, read_refusal

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"
"""`Accept` that asks for an object's metadata alone."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet puts a Pod's token and the authority of the API server."""

_LOADER_LOG = logging.getLogger("kubernetes.aio.config.kube_config")

_UNUSABLE = (ConfigException, OSError, ValueError, TypeError, LookupError, AttributeError, yaml.YAMLError)
"""What the loaders raise for files that are missing, half written, or something else than what they should be."""

_SAY_GOODBYE = aiohttp.ClientWSTimeout(ws_close=1.0)
"""How long the end of a WebSocket is waited for: what was to be read has been."""

Headers = Sequence[tuple[str, str]]
"""What is sent with every request besides; a name may come several times."""

ConnectorFactory = Callable[[], aiohttp.BaseConnector]

Observe = Callable[[str, str, float, int], None]
"""Called after each request with its method, path, seconds, and the status of the answer; 0: there was none."""

Loader = Callable[[Configuration], Awaitable[None]]
"""Writes address and credentials into a configuration."""


class CredentialsError(Exception):
    """No way to the API server is configured, or the one that is cannot be read."""


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A successful answer. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Request:
    """A request without the address and the token."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: Any = None
    content_type: str = JSON
    accept: str = JSON


class ApiConnection:
    """An API server and the identity for it. Make it with `connect`, on the loop that uses it; close it.

    Every request but reads and Leases passes the `guard`: one that is not allowed raises ApiUnavailable.
    """

    def __init__(
        self,
        configuration: Configuration,
        load: Loader,
        connector: ConnectorFactory | None = None,
        guard: Guard | None = None,
        *,
        more_headers: Headers = (),
        bounds: ResponseLimits = BOUNDS,
    ) -> None:
        self._guard = guard or Guard()
        self._bounds = bounds
        self._more_headers = more_headers
        self._answered: Callable[[Mapping[str, str]], None] = lambda _headers: None
        self.observe: Observe = _unobserved
        """Called at the end of every `request`."""

        self._configuration = configuration
        self._load = load
        self._renewing = asyncio.Lock()
        self._connector = connector() if connector else None
        # aiohttp's trust_env would read ~/.netrc in a thread before every request; the proxy is looked up here instead.
        session: dict[str, Any] = {
            "trust_env": False,
            "cookie_jar": aiohttp.DummyCookieJar(),
            "auto_decompress": False,  # None is asked for packed, and a packed one grows a thousandfold.
            "trace_configs": [no_redirects()],
        }
        if self._connector is not None:
            session["connector"] = self._connector
        elif configuration.proxy is None:
            configuration.proxy = _proxy_for(configuration.host)
        if guard is not None:
            prefix = urllib.parse.urlsplit(configuration.host).path.rstrip("/")
            session["trace_configs"].append(guarded_by(guard.may_write, prefix))
        configuration.client_session_kwargs = session
        configuration.retries = None
        self._rest = _Rest(configuration, self._guard.acknowledged_s)

    @property
    def url(self) -> str:
        """The API server's address."""
        return str(self._configuration.host)

    def on_answer(self, callback: Callable[[Mapping[str, str]], None]) -> None:
        """Call `callback` with the headers of every answer to `request`, the moment it has come."""
        self._answered = callback

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_s: float = 10.0,
    ) -> ApiResponse:
        """One request, answered in full within `timeout_s`. `body` is a JSON value.

        Raises ApiError; after a 401 the credentials are read again and the request is sent once more.
        """
        request = _Request(method, path, query, body, content_type, accept)
        if guarded(method, path):
            return await self._guard.shield(self._exchange(request, min(timeout_s, self._guard.answer_within_s())))
        return await self._exchange(request, timeout_s)

    async def _exchange(self, request: _Request, timeout_s: float) -> ApiResponse:
        method, path = request.method, request.path
        name = f"{method} {path}"
        now = asyncio.get_running_loop().time
        began, status = now(), 0
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._send(request)
                try:
                    data = await read_body(response, self._bounds.answer)
                    status = response.status
                except BaseException:
                    response.close()
                    raise
                response.release()
        except TimeoutError as error:
            raise _no_answer(method, f"{name}: no answer within {timeout_s:g} s") from error
        except aiohttp.ClientConnectorError as error:
            raise ApiUnavailable(f"{name}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            if was_not_allowed(error):
                raise ApiUnavailable(f"{name}: not sent, since this process may not write now") from error
            raise _no_answer(method, f"{name}: {text_of(error)}") from error
        finally:
            self.observe(method, path, now() - began, status)
        headers = _lower(response.headers)
        self._answered(headers)
        if response.status >= 400:
            raise _error(name, response, data)
        if method != "GET" and not _is_object(data):
            raise OutcomeUnknown(f"{name}: the answer {response.status} is no JSON object: {data[:80]!r}")
        return ApiResponse(response.status, headers, data)

    @asynccontextmanager
    async def watch(
        self, path: str, query: Mapping[str, str], *, open_timeout_s: float = 30.0, silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A stream of lines. Leaving the context closes the connection at once.

        The lines raise ApiUnavailable when the connection breaks, and Silent when nothing at all comes for `silence_s`
        seconds: a half-open connection shows itself in no other way. They end when the API server ends the stream; a
        last line that is incomplete is dropped. Entering raises ApiError.
        """
        name = f"WATCH {path}"
        try:
            async with asyncio.timeout(open_timeout_s):
                response = await self._send(_Request("GET", path, query))
                try:
                    data = await read_body(response, self._bounds.answer) if response.status >= 400 else b""
                except BaseException:
                    response.close()
                    raise
        except TimeoutError as error:
            raise ApiUnavailable(f"{name}: no answer within {open_timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ApiUnavailable(f"{name}: {text_of(error)}") from error
        try:
            if response.status >= 400:
                raise _error(name, response, data)
            async with aclosing(read_lines(name, response, silence_s, self._bounds.line)) as lines:
                yield lines
        finally:
            response.close()

    @asynccontextmanager
    async def channels(
        self, path: str, query: Mapping[str, str], protocol: str, *, open_timeout_s: float = 10.0
    ) -> AsyncIterator[Channels]:
        """A WebSocket with this subprotocol. Entering raises ApiError; of a refusal only its status is known."""
        name = f"CONNECT {path}"
        token = await self._token()
        headers = [("User-Agent", f"slurm-extender/{__version__}"), *self._more_headers]
        if token:
            headers.append(("Authorization", token))
        more: dict[str, Any] = {"proxy": self._configuration.proxy} if self._configuration.proxy else {}
        if self._configuration.tls_server_name:
            more["server_hostname"] = self._configuration.tls_server_name
        url = f"{self._configuration.host}{path}?{urllib.parse.urlencode(query)}"
        try:
            async with asyncio.timeout(open_timeout_s):
                socket = await self._rest.session().ws_connect(
                    url,
                    protocols=[protocol],
                    headers=CIMultiDict(headers),
                    max_msg_size=self._bounds.message,
                    timeout=_SAY_GOODBYE,
                    **more,
                )
        except TimeoutError as error:
            raise ApiUnavailable(f"{name}: no answer within {open_timeout_s:g} s") from error
        except aiohttp.WSServerHandshakeError as error:
            raise refused(name, Refusal(error.status, "", "the connection was not upgraded"), write=False) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ApiUnavailable(f"{name}: {text_of(error)}") from error
        try:
            yield Channels(name, socket)
        finally:
            await socket.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._rest.close()
        if self._connector is not None:
            await self._connector.close()

    async def _send(self, request: _Request) -> aiohttp.ClientResponse:
        token = await self._token()
        response = await self._send_as(token, request)
        if response.status != 401:
            return response
        try:
            if not await self._renew(token):
                return response
            token = await self._token()
        except BaseException:
            response.release()
            raise
        response.release()
        return await self._send_as(token, request)

    async def _send_as(self, token: str | None, request: _Request) -> aiohttp.ClientResponse:
        url = f"{self._configuration.host}{request.path}"
        if request.query:
            url = f"{url}?{urllib.parse.urlencode(request.query)}"
        headers: Mapping[str, str] = {
            "Accept": request.accept,
            "Accept-Encoding": "identity",  # Packing lists costs both sides more than the network near by does.
            "Content-Type": request.content_type,
            "User-Agent": f"slurm-extender/{__version__}",
        }
        if token:
            headers = {**headers, "Authorization": token}
        if self._more_headers:
            headers = CIMultiDict([*headers.items(), *self._more_headers])
        answer = await self._rest.request(  # type: ignore[no-untyped-call]
            request.method,
            url,
            headers=headers,
            body=request.body,
            _request_timeout=aiohttp.ClientTimeout(total=None),  # A number would be a total, and cut every watch.
        )
        response: aiohttp.ClientResponse = answer.response
        if response.status in REDIRECTS:
            response.close()
            raise redirected(response)
        return response

    async def _token(self) -> str | None:
        try:
            token: str | None = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        except _UNUSABLE as error:
            raise ApiUnavailable(f"the token for {self.url} cannot be read: {error}") from error
        if token:
            token = token.strip()  # A file may end with a newline.
            if not token.isprintable():
                raise ApiUnavailable(f"the token for {self.url} has a line break or the like; no header can hold it")
            return token
        return self._configuration.get_basic_auth_token() if self._configuration.username else None

    async def _renew(self, used: str | None) -> bool:
        """Read the credentials again unless another call just did; return whether they differ from `used` now."""
        async with self._renewing:
            if await self._token() == used:
                try:
                    await self._load(self._configuration)
                except _UNUSABLE as error:
                    raise ApiUnavailable(f"the credentials for {self.url} cannot be read again: {error}") from error
            return await self._token() != used


async def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    connections: int = 100,
    environ: Mapping[str, str],
    service_account: Path = SERVICE_ACCOUNT,
    guard: Guard | None = None,
    more_headers: Headers = (),
) -> ApiConnection:
    """Connect as a kubeconfig says, or as the Pod that this process runs in.

    `kubeconfig` None means: in the cluster if `environ` has KUBERNETES_SERVICE_HOST, else where kubectl looks. In the
    cluster the token is read from the folder `service_account`, again once a minute and after every 401: kubelet writes
    a new one before the old one ends. At most `connections` are open at once. Raises CredentialsError.
    """
    in_cluster = kubeconfig is None and bool(environ.get("KUBERNETES_SERVICE_HOST"))

    async def load(configuration: Configuration) -> None:
        if in_cluster:
            loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]
                str(service_account / "token"), str(service_account / "ca.crt"), environ=environ
            )
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        else:
            # persist_config would write refreshed tokens into the user's file.
            with _complaints_raised():
                await load_kube_config(  # type: ignore[no-untyped-call]
                    kubeconfig, context=context, client_configuration=configuration, persist_config=False
                )

    configuration = Configuration(connection_pool_maxsize=connections)
    try:
        await load(configuration)
    except _UNUSABLE as error:
        where = "the Pod's service account" if in_cluster else f"kubeconfig {kubeconfig or 'at its default place'}"
        raise CredentialsError(f"{where}: {error}") from error
    return ApiConnection(configuration, load, guard=guard, more_headers=more_headers)


async def connect_by(config: Mapping[str, Any], *, more_headers: Headers = ()) -> ApiConnection:
    """Connect as a kubeconfig says that has been read: with absolute paths, and a current context.

    Raises CredentialsError.
    """

    async def load(configuration: Configuration) -> None:
        with _complaints_raised():
            await load_kube_config_from_dict(config, client_configuration=configuration)  # type: ignore[no-untyped-call]

    configuration = Configuration()
    try:
        await load(configuration)
    except _UNUSABLE as error:
        raise CredentialsError(f"kubeconfig: {error}") from error
    return ApiConnection(configuration, load, more_headers=more_headers)


def connect_plainly(
    url: str,
    token: Callable[[], str],
    connector: ConnectorFactory | None = None,
    guard: Guard | None = None,
    bounds: ResponseLimits = BOUNDS,
) -> ApiConnection:
    """Connect to `url` with a bearer token that is asked for again after a 401. `connector` replaces sockets."""

    async def load(configuration: Configuration) -> None:
        configuration.api_key["BearerToken"] = f"Bearer {token()}"

    configuration = Configuration(host=url, api_key={"BearerToken": f"Bearer {token()}"})
    return ApiConnection(configuration, load, connector, guard, bounds=bounds)


@contextmanager
def _complaints_raised() -> Iterator[None]:
    """Raise what the loader only logs: a credential plugin of a kubeconfig that fails leaves it without a user."""
    said: list[str] = []
    complaints = logging.Handler(logging.ERROR)
    complaints.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    _LOADER_LOG.addHandler(complaints)
    try:
        yield
    finally:
        _LOADER_LOG.removeHandler(complaints)
    if said:
        raise ConfigException(f"the credential plugin: {said[0]}")


class _Rest(RESTClientObject):
    """The package's transport, over the sockets of this module."""

    def __init__(self, configuration: Configuration, acknowledged_s: float | None) -> None:
        super().__init__(configuration)
        self._acknowledged_s = acknowledged_s

    def session(self) -> aiohttp.ClientSession:
        """Return the session that sends requests."""
        if self.pool_manager is None:
            self.pool_manager = self._create_pool_manager()
        found: aiohttp.ClientSession = self.pool_manager
        return found

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=self.maxsize, ssl=self.ssl_context, socket_factory=self._socket)

    def _socket(self, where: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = where
        made = socket.socket(family, kind, protocol)
        if self._acknowledged_s is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._acknowledged_s * 1000))
        return made


def _is_object(data: bytes) -> bool:
    """Every answer of an API server to a write is one: the object as it is now, or a Status."""
    try:
        return isinstance(from_json(data), dict)
    except ValueError:
        return False


def _unobserved(_method: str, _path: str, _seconds: float, _status: int) -> None:
    """For who does not count requests."""


def _error(name: str, response: aiohttp.ClientResponse, data: bytes) -> ApiError:
    error = refused(name, read_refusal(data, response.status), write=response.method != "GET")
    if isinstance(error, Throttled) and not error.retry_after_s:
        error.retry_after_s = pause_of(response.headers.get("Retry-After", ""))  # its other form, a date, is not used
    return error


def _no_answer(method: str, text: str) -> ApiError:
    return ApiUnavailable(text) if method == "GET" else OutcomeUnknown(text)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for `url`, as client-go would use it."""
    parts = urllib.parse.urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)
