"""Everything that reads what strangers write, each as a function of bytes that raises where a promise is broken.

A reader's own errors are answers. Anything else that is raised is a finding, and so is a result that breaks what the
reader promises. Each target has inputs to begin with, of the forms that it knows.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import yaml

from extender.assembly.io_context import ProtocolFactory
from extender.config.faults import ConfigError
from extender.config.load import parse
from extender.config.policy_file import parse_policy
from extender.config.values import BindAddress
from extender.domain import wellknown
from extender.domain.gangs.context import ControllerView
from extender.domain.policy.site import TranslationPolicy
from extender.domain.printable import printable
from extender.domain.translation.annotation_table import SETTINGS
from extender.domain.translation.translate import MOST_SENTENCES, TranslationRefused, translate
from extender.domain.views import OwnerReference
from extender.http.bounded_protocol import BoundedProtocol
from extender.http.server import serving
from extender.kube.errors import ApiUnavailable
from extender.kube.wire.controllers import with_size
from extender.kube.wire.fields import MalformedObject, Unreadable
from extender.kube.wire.manifest import read_manifest
from extender.kube.wire.meta import read_object_meta
from extender.kube.wire.stream import (
    DEVICE_CLASS,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUPS,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    ResourceKind,
    read_refusal,
)
from slurmclient.errors import SlurmError
from slurmclient.wire.list_cache import ListCache
from tests.builders import kube_samples
from tests.builders.growth import CONFIGURATION, POLICY, YAML, readers
from tests.builders.listeners import every_route, requests_of
from tests.builders.pod_views import a_pod
from tests.builders.slurmrestd_answers import CALLS, RECORDINGS, answer_of, read

Target = Callable[[bytes], None]
NOW = 2_000_000.0
LONGEST_FAULT = 2_000
"""Characters of one sentence about a Pod; the author of the Pod decides what it quotes."""


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """One target: what reads, what to begin with, and what is promised."""

    act: Target
    seeds: tuple[bytes, ...]
    promise: str


def text_of(data: bytes) -> str:
    """Any text that JSON can bring, halves of surrogate pairs included."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


# Text


def one_text(data: bytes) -> None:
    """One reader of `tests/builders/growth.py`, chosen by the first byte."""
    if data:
        _, reader = texts()[data[0] % len(texts())]
        try:
            reader(text_of(data[1:]))
        except (ValueError, SlurmError, ConfigError):
            return


@cache
def texts() -> list[tuple[str, Callable[[str], object]]]:
    return [(name, reader) for name, reader in readers() if not name.startswith(YAML)]


def settings_of_a_pod(data: bytes) -> None:
    """A Pod with these annotations is translated, or refused in short visible sentences."""
    parts = text_of(data).split("\x00")
    given = dict(zip(parts[::2], parts[1::2], strict=False))
    root = {key: value for key, value in given.items() if key.startswith(wellknown.BRIDGE_PREFIX)}
    result = translate([a_pod(annotations=given)], root, TranslationPolicy(), NOW)
    if isinstance(result, TranslationRefused):
        sentences: Iterable[str] = result.faults
    else:
        sentences = [notice.text for notice in result.notices]
    found = list(sentences)
    if len(found) > MOST_SENTENCES + 1:
        raise AssertionError(f"{len(found)} sentences")
    for one in found:
        if len(one) > LONGEST_FAULT or printable(one) != one:
            raise AssertionError(f"{len(one)} characters: {one[:200]!a}")


def configuration(data: bytes) -> None:
    """A configuration file."""
    try:
        parse(text_of(data), "c.yaml")
    except ConfigError:
        return


def policy(data: bytes) -> None:
    """A policy file."""
    try:
        parse_policy(text_of(data), "p.yaml", parse(CONFIGURATION, "site"))
    except ConfigError:
        return


def manifest(data: bytes) -> None:
    """A manifest that `slurm-extender translate` reads."""
    try:
        for document in yaml.safe_load_all(text_of(data)):
            list(read_manifest(document))
    except (yaml.YAMLError, MalformedObject):
        return


# Answers


def slurmrestd_answer(data: bytes) -> None:
    """An answer of slurmrestd to the call that the first byte chooses, in each of two versions."""
    if not data:
        return
    name = list(CALLS)[data[0] % len(CALLS)]
    for recording in RECORDINGS:
        for listed in (None, ListCache("nodes")):
            try:
                read(recording, CALLS[name], data[1:], cache=listed)
            except SlurmError:
                continue


def api_server_answer(data: bytes) -> None:
    """A page of a list, a line of a watch, a refusal, metadata, or a controller of Pods."""
    if data:
        try:
            ANSWER_READERS[data[0] % len(ANSWER_READERS)](data[1:])
        except (Unreadable, MalformedObject, ApiUnavailable):
            return


KINDS: tuple[tuple[ResourceKind[Any], object], ...] = (
    (POD, kube_samples.POD),
    (NODE, kube_samples.NODE),
    (NAMESPACE, kube_samples.NAMESPACE),
    (DEVICE_CLASS, kube_samples.DEVICE_CLASS),
    (RESOURCE_CLAIM, kube_samples.RESOURCE_CLAIM),
    (RESOURCE_SLICE, kube_samples.RESOURCE_SLICE),
    *((kind, kube_samples.POD_GROUPS[api]) for api, kind in POD_GROUPS.items()),
)
OWNERS = [ControllerView(OwnerReference(*named, "1", "1")) for named in kube_samples.CONTROLLERS]
ANSWER_READERS: list[Callable[[bytes], object]] = [
    partial(read_refusal, code=500),
    read_object_meta,
    *(partial(with_size, owner) for owner in OWNERS),
    *(read for kind, _ in KINDS for read in (kind.page, kind.change)),
]


# HTTP


class Written(asyncio.Transport):
    """The side of the client: keeps what was written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1), "sockname": ("192.0.2.2", 2)})
        self.data = bytearray()
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.data += data

    def close(self) -> None:
        """No more is read."""
        self._closing = True

    abort = close

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._closing

    def pause_reading(self) -> None:
        """Everything has arrived already."""

    def resume_reading(self) -> None:
        """The same."""


class Listener:
    """A listener in memory, with every route that strangers reach."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._failures: list[object] = []
        self._protocol = self._runner.run(self._open())

    def send(self, *parts: bytes) -> bytes:
        """What comes back for these parts of one connection. Raises what nobody caught."""
        said = self._runner.run(self._sent(parts))
        if self._failures:
            raise AssertionError(self._failures.pop())
        return said

    async def _open(self) -> ProtocolFactory:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: self._failures.append(context))
        made: list[ProtocolFactory] = []

        class Closed:
            def close(self) -> None:
                """Nothing is open."""

        def listen(_host: str, _port: int, factory: ProtocolFactory) -> Closed:
            made.append(factory)
            return Closed()

        endpoint = replace(every_route(BindAddress("192.0.2.2", 2)), names=("fuzz",))
        self._serving = serving([endpoint], stop_within_s=0, listen=listen)
        await self._serving.__aenter__()
        return made[0]

    async def _sent(self, parts: Iterable[bytes]) -> bytes:
        protocol, transport = self._protocol(), Written()
        assert isinstance(protocol, BoundedProtocol)
        protocol.connection_made(transport)
        for part in parts:
            protocol.data_received(part)
            await _settled()
        protocol.connection_lost(None)
        await _settled()
        return bytes(transport.data)


async def _settled() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


@cache
def listener() -> Listener:
    return Listener()


def http_bytes(data: bytes) -> None:
    """The bytes of one connection, in two parts."""
    _judge(listener().send(data[: len(data) // 2], data[len(data) // 2 :]))


REQUESTS = requests_of(every_route(BindAddress("192.0.2.2", 2)))


def http_body(data: bytes) -> None:
    """A body for the route that the first byte chooses."""
    if data:
        method, address = REQUESTS[data[0] % len(REQUESTS)]
        head = f"{method} {address} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
        length = b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(data[1:])
        _judge(listener().send(head + length + data[1:]))


def http_address(data: bytes) -> None:
    """An address and a token, as the scripts of nodes send them."""
    address, _, token = data.partition(b"\n")
    address, token = (bytes(one for one in text if 32 < one < 127) for text in (address, token))
    head = b"POST /hooks/" + address + b" HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + token
    _judge(listener().send(head + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))


def http_page(data: bytes) -> None:
    """An address of the pages that operators read."""
    address = bytes(one for one in data if 32 < one < 127)
    _judge(listener().send(b"GET /" + address + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))


def _judge(said: bytes) -> None:
    for part in said.split(b"HTTP/1.1 ")[1:]:
        if part[:1] == b"5" and part[:3] != b"503":
            raise AssertionError(said[:500])


# What to begin with


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


VALUES = (
    "7",
    "1-00:00:00",
    "gpu:h100:2",
    "afterok:7",
    "n[1-3],m",
    "2026-01-01T00:00:00",
    "a&b|c",
    "true",
    "500Mi",
    "x@2",
)


def _annotation_seeds() -> Iterator[bytes]:
    for number, one in enumerate(SETTINGS):
        for prefix, name in (
            (wellknown.OWN_PREFIX, one.name),
            (wellknown.SUNK_PREFIX, one.sunk),
            (wellknown.BRIDGE_PREFIX, one.bridge),
        ):
            if name:
                value = VALUES[number % len(VALUES)]
                yield f"{prefix}{name}\x00{value}".encode()


def _answer_seeds() -> Iterator[bytes]:
    for number, name in enumerate(CALLS):
        for recording in RECORDINGS:
            yield bytes([number]) + _json(answer_of(recording, name))


def _api_server_seeds() -> Iterator[bytes]:
    lists = ((_page(sample), {"type": "ADDED", "object": sample}) for _, sample in KINDS)
    objects = [kube_samples.STATUS, {"metadata": kube_samples.METADATA}, *kube_samples.CONTROLLERS.values()]
    for number, answer in enumerate([*objects, *itertools.chain.from_iterable(lists)]):
        yield bytes([number]) + _json(answer)


def _page(sample: object) -> object:
    return {"metadata": {"resourceVersion": "1"}, "items": [sample]}


REVIEW = {
    "kind": "AdmissionReview",
    "request": {"uid": "1", "operation": "CREATE", "object": {"metadata": {}, "spec": {}}},
}
FILTER_ARGS = {"Pod": {"metadata": {"name": "a", "uid": "u"}, "spec": {"schedulerName": "slurm"}}, "NodeNames": ["n1"]}

TARGETS: dict[str, Fuzzed] = {
    "texts": Fuzzed(
        one_text,
        tuple(
            bytes([number]) + text
            for number in range(0, 180, 9)
            for text in (b"1-00:00:00", b"gpu:h100:2", b"n[1-3],m", b"{}")
        ),
        "each reader of one text ends in its own error or a value",
    ),
    "annotations": Fuzzed(
        settings_of_a_pod,
        tuple(_annotation_seeds()),
        "a Pod is translated, or refused in few short sentences of visible characters",
    ),
    "configuration": Fuzzed(configuration, (CONFIGURATION.encode(),), "a file is read, or its faults are listed"),
    "policy": Fuzzed(policy, (POLICY.encode() + b"rules: [{name: a, allow: {partitions: [x]}}]\n",), "the same"),
    "manifests": Fuzzed(
        manifest,
        (b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n",),
        "Pods are found, or an error says why not",
    ),
    "answers of slurmrestd": Fuzzed(
        slurmrestd_answer, tuple(_answer_seeds()), "an answer is read, or is the client's error"
    ),
    "answers of the API server": Fuzzed(
        api_server_answer, tuple(_api_server_seeds()), "an answer is read, or is unreadable, or an object in it is odd"
    ),
    "bytes of a connection": Fuzzed(
        http_bytes,
        (b"POST /scheduler/filter HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}",),
        "no status 500, nothing is raised",
    ),
    "bodies of requests": Fuzzed(
        http_body,
        tuple(
            bytes([number]) + _json(one) for number, one in enumerate((FILTER_ARGS, {"PodName": "a"}, REVIEW, REVIEW))
        ),
        "the same",
    ),
    "addresses of metrics, /debug and the console": Fuzzed(
        http_page, tuple(address[1:].encode() for method, address in REQUESTS if method == "GET"), "the same"
    ),
    "addresses and tokens of hooks": Fuzzed(
        http_address,
        (b"jobs/7/teardown?wait=3\ntoken", b"nodes/n1/clear?jobs=1,2&wait=3\nk", b"nodes/n1/lock?job=1\nk"),
        "the same",
    ),
}
