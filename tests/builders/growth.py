"""Measure how the CPU time of every reader of untrusted text grows with that text; runs as a program.

`python -m tests.builders.growth` prints a line of JSON for each reader and shape whose time more than triples where the
text doubles, or which fails otherwise than by its own errors. It limits its own CPU time and memory, so that a reader
that hangs, or that fills the memory, ends it.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

from extender.config.faults import ConfigError
from extender.config.load import parse
from extender.config.policy_file import parse_policy
from extender.config.values import read_bind_address, read_duration
from extender.domain import quantity, wildcards
from extender.domain.devices.cpu_order import read_order
from extender.domain.gangs import readers as gang_readers
from extender.domain.gangs.membership import MemberOrder
from extender.domain.jobs.cancelled import decode_cancelled
from extender.domain.jobs.devices import numbers
from extender.domain.jobs.identity import decode_mark
from extender.domain.nodes.causes import deleted_in
from extender.domain.nodes.drain_reasons import earlier_reason, is_own_drain, with_earlier_reason
from extender.domain.nodes.removals import removals_in
from extender.domain.placing.node_affinity import requires
from extender.domain.policy.site import TranslationPolicy, is_gres
from extender.domain.translation.annotation_reader import read_settings
from extender.domain.translation.annotation_table import SETTINGS
from extender.domain.translation.forms import SECONDS_AS_MINUTES
from extender.domain.translation.gres import requested_gres
from extender.domain.translation.licenses import counted
from extender.domain.views import NodeTerm, NodeView, Requirement
from extender.domain.wellknown import BRIDGE_PREFIX, OWN_PREFIX, SUNK_PREFIX
from extender.kube.wire.json_text import parse_json
from slurmclient import hostlist, tres
from slurmclient.capabilities import Release
from slurmclient.errors import SlurmError
from tests.builders import config_texts, stated_keys

CPU_S = 40
"""Ends what hangs; asserts nothing about speed."""

MEMORY = 2**30
"""The limit of the Pod in `manifests/core/extender.yaml`."""

SIZES = (64 * 1024, 128 * 1024, 250 * 1024)
TRIES = 12
"""Tries before a reader counts as slow: beside other processes single tries take several times as long."""

FLOOR_S = 0.02
"""Below it other processes on the machine decide more than the text."""

GROWTH = 3.0
SLOW = 32
"""YAML is read by a library in Python, some megabytes a minute: its texts are shorter by so much."""

CONFIGURATION = """\
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
slurm: {token: hush}
"""
POLICY = "apiVersion: slurm-extender.io/v1alpha1\nkind: PodPolicy\n"

YAML = "YAML: "
Reader = Callable[[str], object]

SHAPES: dict[str, Callable[[int], str]] = {
    "digits": lambda n: "1" * n,
    "digits and a letter": lambda n: "1" * n + "x",
    "letters": lambda n: "a" * n,
    "letters and a sign": lambda n: "a" * n + "!",
    "brackets": lambda n: "[" * n,
    "closed brackets": lambda n: "n" + "[]" * (n // 2),
    "ranges": lambda n: ("n" + "[0-65535]" * (n // 9))[:n],
    "a long name and a range": lambda n: "n" * (n - 9) + "[0-65535]",
    "many short ranges": lambda n: ",".join(["n[1-9]"] * (n // 7)),
    "commas": lambda n: "," * n,
    "colons": lambda n: "gpu" + ":1" * (n // 2),
    "parentheses": lambda n: "gpu(" + "," * n,
    "braces": lambda n: '{"slurm-extender":' * (n // 18),
    "quotes": lambda n: '"' * n,
    "nested lists": lambda n: "[" * (n // 2) + "]" * (n // 2),
    "spaces": lambda n: " " * n + "x",
    "lines": lambda n: "a\n" * (n // 2),
    "stars": lambda n: "*" * n,
    "signs": lambda n: "+-" * (n // 2),
    "points": lambda n: "." * n,
    "now": lambda n: "now+" + "1" * n,
    "exponent": lambda n: "1e" + "9" * n,
    "half characters": lambda n: "\ud800" * n,
    "removed Pods": lambda n: "slurm-extender: Pod a (" * (n // 23),
    "words": lambda n: "Pod a/b (u) " * (n // 12),
}


def readers() -> Iterator[tuple[str, Reader]]:
    """Yield every reader of text from an untrusted source; forms of settings come from the table of them."""
    for setting in SETTINGS:
        yield f"setting {setting.name}", setting.form.read
    yield "SUNK's timeout in seconds", SECONDS_AS_MINUTES.read
    policy = TranslationPolicy()
    for prefix in (OWN_PREFIX, SUNK_PREFIX, BRIDGE_PREFIX):
        yield f"an unknown key under {prefix}", partial(_annotation_key, prefix, policy)
        yield f"a value under {prefix}", partial(_annotation_value, prefix, policy)
    for key in stated_keys.stated_keys():
        yield f"a Pod's {key}", partial(stated_keys.read_pod_key, key)
        yield f"a Node's {key}", partial(stated_keys.read_node_key, key)
    for field in ("apiVersion", "kind", "name", "uid"):
        yield f"{field} of an owner reference", partial(stated_keys.read_owner, field)
    for field in ("scheduling_group", "workload_ref"):
        yield f"a Pod's {field}", partial(stated_keys.read_group, field)
    yield "the annotation of a cancelled job", lambda text: decode_cancelled(text, "u")
    yield "the name of a gang", gang_readers.read_name
    yield "the size of a gang", lambda text: gang_readers.read_size(text, 1024)
    yield "what a message quotes of a gang", gang_readers.quoted
    yield "the place of a member by its name", lambda text: MemberOrder((), text).key
    yield "the order of a Node's CPUs", read_order
    yield "a quantity", quantity.parse
    yield "the mark of a job", decode_mark
    yield "the devices of a job", numbers
    yield "the GRES of a setting", requested_gres
    yield "the licences of a setting", counted
    yield "the name of a GRES", is_gres
    yield "a node affinity", _affinity
    yield "a pattern of the policy", lambda text: wildcards.matches("*a*1*.*b*x", text)
    yield (
        "the reason of a drain",
        lambda text: (is_own_drain(text, "o"), earlier_reason(text), with_earlier_reason(text, "w")),
    )
    yield "the Pods that a drain names", removals_in
    yield "the deleted Node of a drain", deleted_in
    yield "a host list of Slurm", hostlist.expand
    yield "names as a host list", lambda text: hostlist.compress(text.split("1"))
    yield "a TRES string of Slurm", tres.parse_tres
    yield "a GRES string of Slurm", tres.parse_gres
    yield "a request for TRES", tres.check_tres_request
    yield "the release of Slurm", Release.parse
    yield "a raw field of an object", lambda text: parse_json(f'{{"metadata": {text}}}')
    yield "a raw text of an object", lambda text: parse_json(f'{{"metadata": "{text}"}}')
    yield "a duration", read_duration
    yield "an address to listen at", read_bind_address
    yield from config_texts.readers()
    yield YAML + "a configuration", lambda text: parse(text, "c.yaml")
    site = parse(CONFIGURATION, "site")
    yield (
        YAML + "a value of a configuration",
        lambda text: parse(f"{CONFIGURATION}scheduler: {{name: {text}}}\n", "c.yaml"),
    )
    yield YAML + "a policy", lambda text: parse_policy(text, "p.yaml", site)
    yield (
        YAML + "a value of a policy",
        lambda text: parse_policy(f"{POLICY}rules: [{{name: {text}}}]\n", "p.yaml", site),
    )


def _annotation_key(prefix: str, policy: TranslationPolicy, text: str) -> object:
    keys = {prefix + text[at : at + 40] + str(at): "x" for at in range(0, len(text), 40)}
    return read_settings({prefix + text: "x", **keys}, keys, policy)


def _annotation_value(prefix: str, policy: TranslationPolicy, text: str) -> object:
    names = [name for one in SETTINGS for name in (one.name, one.sunk, one.bridge) if name]
    values = {prefix + name: text for name in names}
    return read_settings(values, values, policy)


def _affinity(text: str) -> object:
    terms = [NodeTerm(expressions=(Requirement("size", operator, (text,)),)) for operator in ("Gt", "Lt", "In")]
    return requires(terms, NodeView("n", labels={"size": text}))


def cpu_time(read: Reader, text: str) -> float:
    """Return the CPU seconds of one reading. The reader's own errors count as answers; any other is raised."""
    gc.disable()  # a collection costs as much as all that is alive, whatever the reader does
    before = time.process_time()  # what is measured here
    try:
        with contextlib.suppress(ValueError, ConfigError, SlurmError):
            read(text)
        return time.process_time() - before
    finally:
        gc.enable()


@cache
def texts_of(shape: str, shorter_by: int) -> list[str]:
    """Return texts of one shape and of each length."""
    return [SHAPES[shape](size // shorter_by) for size in SIZES]


def offences(pairs: Iterable[tuple[str, Reader]]) -> Iterator[dict[str, Any]]:
    """Yield readers and shapes that grow faster than in proportion."""
    for name, read in pairs:
        for shape in SHAPES:
            texts = texts_of(shape, SLOW if name.startswith(YAML) else 1)
            try:
                if not _grows(read, texts):
                    continue
            except Exception as error:  # an unexpected error of a reader is the result
                yield {"reader": name, "shape": shape, "error": repr(error)[:200]}
                continue
            yield {"reader": name, "shape": shape, "seconds": [cpu_time(read, text) for text in texts]}


def _grows(read: Reader, texts: list[str]) -> bool:
    """Return whether the shortest times of so many tries grow faster than in proportion."""
    best = [math.inf] * len(texts)
    for _ in range(TRIES):
        best = [min(known, cpu_time(read, text)) for known, text in zip(best, texts, strict=True)]
        if not any(later > max(FLOOR_S, GROWTH * earlier) for earlier, later in itertools.pairwise(best)):
            return False
    return True


def main() -> None:
    """Measure every reader within the limits, and print offences and how many readers there were."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.setrecursionlimit(1000)
    every = list(readers())
    for offence in offences(every):
        print(json.dumps(offence), flush=True)
    print(json.dumps({"readers": len(every)}), flush=True)


if __name__ == "__main__":
    main()
