"""Connect to the API server: credentials, TLS, raw requests and raw watches, over aiohttp.

The only file that imports the kubernetes package, of which it uses the loaders of kubeconfigs and of service accounts.
Its other parts do not fit (kubernetes.aio 37): its models cost half a millisecond per object and reject a page because
of one unknown field, its watch parses every line twice, and its transport does not raise on 4xx and 5xx.
"""

from __future__ import annotations

import asyncio
import json
import logging.handlers
import socket
import ssl
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import InClusterConfigLoader
from kubernetes.aio.config.kube_config import load_kube_config, load_kube_config_from_dict
from multidict import CIMultiDict

from extender import __version__
from extender.kube.answers import (
    BOUNDS,
    REDIRECTS,
    ResponseLimits,
    no_answer,
    read_body,
    read_lines,
    redirected,
    refuse_redirects,
    text_of,
)
from extender.kube.channels import Channels
from extender.kube.errors import ApiError, ApiUnavailable, OutcomeUnknown, Throttled, refused
from extender.kube.kubeconfig import missing_kubeconfig
from extender.kube.wire.fields import MalformedObject, parsed
from extender.kube.wire.stream import Refusal, pause_of, read_refusal
from extender.kube.write_check import WriteCheck, check_writes, needs_permission, was_not_allowed

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply. JSON is YAML."""

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"
"""`Accept` that asks for an object's metadata alone."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder in which the kubelet provides the token of a Pod and the certificate authority of the API server."""

_LOADER_LOG = logging.getLogger("kubernetes.aio.config.kube_config")

_UNUSABLE = (ConfigException, OSError, ValueError, TypeError, LookupError, AttributeError, yaml.YAMLError)
"""The errors of the loaders for files that are missing, incomplete or invalid."""

IN_A_POD = "KUBERNETES_SERVICE_HOST"
"""The kubelet sets this variable in every container."""

_CLOSE_TIMEOUT = aiohttp.ClientWSTimeout(ws_close=1.0)
"""Limit the wait for the end of a WebSocket, of which everything needed has been read."""

_NO_TOTAL = aiohttp.ClientTimeout(total=None)
"""A total time-out would end every watch; requests have their own."""

_READ_BUFFER = 2**21
"""Bytes of an answer that may wait to be read."""

Headers = Sequence[tuple[str, str]]
"""Additional headers of every request; a name may occur several times."""

ConnectorFactory = Callable[[], aiohttp.BaseConnector]

Observe = Callable[[str, str, float, int], None]
"""Called after a request with method, path, seconds, and the status of the answer; 0: there was none."""

Loader = Callable[[Configuration], Awaitable[None]]
"""Write address and credentials into a configuration."""


class CredentialsError(Exception):
    """Report that the credentials for the API server are missing or cannot be read."""


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """Hold a successful answer. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Request:
    """Hold a request without address and token."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: Any = None
    content_type: str = JSON
    accept: str = JSON
    page: bool = False


class ApiConnection:
    """Send requests to one API server, with one identity. Make it by `connect`, on the loop that uses it; close it.

    `write_check` decides on every write but those of Leases. A write that it stops raises ApiUnavailable.
    """

    def __init__(
        self,
        configuration: Configuration,
        load: Loader,
        connector: ConnectorFactory | None = None,
        write_check: WriteCheck | None = None,
        *,
        more_headers: Headers = (),
        bounds: ResponseLimits = BOUNDS,
    ) -> None:
        self._write_check = write_check or WriteCheck()
        self._bounds = bounds
        self._more_headers = more_headers
        self._answered: Callable[[Mapping[str, str]], None] = lambda _headers: None
        self._observe: Observe = _unobserved
        self._configuration = configuration
        self._load = load
        self._renewing = asyncio.Lock()
        # aiohttp's trust_env would read ~/.netrc in a thread before every request; the proxy is looked up here instead.
        self._proxy: str | None = configuration.proxy or (None if connector else _proxy_for(configuration.host))
        self._server_name: str | None = configuration.tls_server_name or None
        trace = aiohttp.TraceConfig()  # one alone: aiohttp sends each of a dozen signals of a request to every one
        refuse_redirects(trace)
        if write_check is not None:
            check_writes(trace, write_check.may_write, urllib.parse.urlsplit(configuration.host).path.rstrip("/"))
        self._session = aiohttp.ClientSession(
            connector=connector() if connector else _tcp_connector(configuration, self._write_check.acknowledged_s),
            timeout=_NO_TOTAL,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # No answer is requested compressed, and a compressed one may grow a thousandfold.
            read_bufsize=_READ_BUFFER,
            trace_configs=[trace],
        )

    @property
    def url(self) -> str:
        """Return the API server's address."""
        return str(self._configuration.host)

    def on_answer(self, callback: Callable[[Mapping[str, str]], None]) -> None:
        """Call `callback` with the headers of every answer to `request` as soon as it has come."""
        self._answered = callback

    def observe(self, observer: Observe) -> None:
        """Call `observer` after every `request` with method, path, seconds and status; 0: no answer came."""
        self._observe = observer

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
        page: bool = False,
    ) -> ApiResponse:
        """Send one request and return its complete answer. `body` is a JSON value. `page`: it has the limit of a page.

        Raises ApiError, also if there is no complete answer within `timeout_s`. After a 401 the credentials are read
        again and the request is sent once more.
        """
        request = _Request(method, path, query, body, content_type, accept, page)
        if needs_permission(method, path):
            return await self._write_check.shield(
                self._exchange(request, min(timeout_s, self._write_check.answer_within_s()))
            )
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
                    data = await read_body(response, self._bounds.page if request.page else self._bounds.answer)
                    status = response.status
                except BaseException:
                    response.close()
                    raise
                response.release()
        except TimeoutError as error:
            raise no_answer(method, f"{name}: no answer within {timeout_s:g} s") from error
        except aiohttp.ClientConnectorError as error:
            raise ApiUnavailable(f"{name}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            if was_not_allowed(error):
                raise ApiUnavailable(f"{name}: not sent, since this process may not write now") from error
            raise no_answer(method, f"{name}: {text_of(error)}", error) from error
        finally:
            self._observe(method, path, now() - began, status)
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
        """Open a stream of lines. Leaving the context closes the connection at once.

        The lines raise ApiUnavailable if the connection breaks, and Silent if nothing comes for `silence_s` seconds:
        there is no other sign of a half-open connection. They end when the API server ends the stream; an incomplete
        last line is dropped. Entering raises ApiError.
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
        """Open a WebSocket with this subprotocol. Entering raises ApiError, which has only the status of a refusal."""
        name = f"CONNECT {path}"
        token = await self._token()
        headers = [("User-Agent", f"slurm-extender/{__version__}"), *self._more_headers]
        if token:
            headers.append(("Authorization", token))
        url = f"{self._configuration.host}{path}?{urllib.parse.urlencode(query)}"
        try:
            async with asyncio.timeout(open_timeout_s):
                socket = await self._session.ws_connect(
                    url,
                    protocols=[protocol],
                    headers=CIMultiDict(headers),
                    max_msg_size=self._bounds.message,
                    timeout=_CLOSE_TIMEOUT,
                    proxy=self._proxy,
                    server_hostname=self._server_name,
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
        await self._session.close()

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
        body = None if request.body is None else json.dumps(request.body).encode("ascii")
        if token:
            headers = {**headers, "Authorization": token}
        if self._more_headers:
            headers = CIMultiDict([*headers.items(), *self._more_headers])
        response = await self._session.request(
            request.method, url, headers=headers, data=body, proxy=self._proxy, server_hostname=self._server_name
        )
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
            token = token.strip()  # Files may end with a newline.
            if not token.isprintable():
                raise ApiUnavailable(f"the token for {self.url} contains a line break or another control character")
            return token
        return self._configuration.get_basic_auth_token() if self._configuration.username else None

    async def _renew(self, used: str | None) -> bool:
        """Read the credentials again unless another request just did so. Return whether they differ from `used`."""
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
    write_check: WriteCheck | None = None,
    more_headers: Headers = (),
) -> ApiConnection:
    """Connect with a kubeconfig, or as the Pod of this process.

    If `kubeconfig` is None: as the Pod if `environ` has KUBERNETES_SERVICE_HOST, else with the kubeconfig that kubectl
    would use. In a Pod the token is read from the folder `service_account`, again once a minute and after every 401:
    the kubelet writes a new one before the old one expires. At most `connections` are open at once. Raises
    CredentialsError.
    """
    in_cluster = kubeconfig is None and bool(environ.get(IN_A_POD))
    if kubeconfig is None and not in_cluster and (missing := missing_kubeconfig(environ)):
        raise CredentialsError(missing)

    async def load(configuration: Configuration) -> None:
        if in_cluster:
            loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]
                str(service_account / "token"), str(service_account / "ca.crt"), environ=environ
            )
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        else:
            # persist_config would write refreshed tokens into the kubeconfig of the user.
            with _complaints_raised():
                await load_kube_config(  # type: ignore[no-untyped-call]
                    kubeconfig, context=context, client_configuration=configuration, persist_config=False
                )

    configuration = Configuration(connection_pool_maxsize=connections)
    try:
        await load(configuration)
    except _UNUSABLE as error:
        where = "the service account of the Pod" if in_cluster else f"kubeconfig {kubeconfig or 'at its default place'}"
        raise CredentialsError(f"{where}: {error}") from error
    return ApiConnection(configuration, load, write_check=write_check, more_headers=more_headers)


async def connect_by(config: Mapping[str, Any], *, more_headers: Headers = ()) -> ApiConnection:
    """Connect with a parsed kubeconfig that has absolute paths and a current context.

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
    write_check: WriteCheck | None = None,
    bounds: ResponseLimits = BOUNDS,
) -> ApiConnection:
    """Connect to `url` with a bearer token that is requested again after a 401. `connector` replaces sockets."""

    async def load(configuration: Configuration) -> None:
        configuration.api_key["BearerToken"] = f"Bearer {token()}"

    configuration = Configuration(host=url, api_key={"BearerToken": f"Bearer {token()}"})
    return ApiConnection(configuration, load, connector, write_check, bounds=bounds)


@contextmanager
def _complaints_raised() -> Iterator[None]:
    """Raise the errors of credential plugins: the loader only logs them and continues without credentials."""
    complaints = logging.handlers.BufferingHandler(capacity=1000)
    complaints.setLevel(logging.ERROR)
    _LOADER_LOG.addHandler(complaints)
    try:
        yield
    finally:
        _LOADER_LOG.removeHandler(complaints)
    if complaints.buffer:
        raise ConfigException(f"the credential plugin: {complaints.buffer[0].getMessage()}")


def _tcp_connector(configuration: Configuration, acknowledged_s: float | None) -> aiohttp.TCPConnector:
    def made(where: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = where
        one = socket.socket(family, kind, protocol)
        if acknowledged_s is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(acknowledged_s * 1000))
        return one

    https = str(configuration.host).lower().startswith("https:")
    context = _ssl_context(configuration) if https else True
    return aiohttp.TCPConnector(limit=configuration.connection_pool_maxsize, ssl=context, socket_factory=made)


def _ssl_context(configuration: Configuration) -> ssl.SSLContext:
    """Return the context that the credentials describe. Raises OSError, ssl.SSLError."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _is_object(data: bytes) -> bool:
    """Return whether an answer to a write is valid: an API server sends the new object, or a Status."""
    with suppress(MalformedObject):
        parsed("object", data)
        return True
    return False


def _unobserved(_method: str, _path: str, _seconds: float, _status: int) -> None:
    """Observe nothing; the default."""


def _error(name: str, response: aiohttp.ClientResponse, data: bytes) -> ApiError:
    error = refused(name, read_refusal(data, response.status), write=response.method != "GET")
    if isinstance(error, Throttled) and not error.retry_after_s:
        error.retry_after_s = pause_of(response.headers.get("Retry-After", ""))  # its other form, a date, is not used
    return error


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for `url`, as client-go does."""
    parts = urllib.parse.urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)
