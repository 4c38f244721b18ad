"""Evidence that the fence of a Slurm node works: which script of the node called last, and the proof on its Node.

slurmrestd shows neither `Epilog` nor `PrologSlurmctld`. The fence script calls the hooks at each end of a placeholder
job, with the site key; such a call is the evidence. An end without its call removes the evidence. It is written on the
Node as an annotation with an HMAC, so that it survives a restart and a kubelet cannot invent it. A kubelet can write
back an annotation that its own Node had before: that is worth at most the lifetime of the evidence.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from extender.domain.pods.allocation_record import LONGEST_NAME, derive_key

_VERSION = 1
_PURPOSE = b"evidence of a fence, version 1"
"""Keeps this key apart from those of allocation records and of job tokens."""

_LONGEST = 120
"""Characters of an annotation that are read; one has at most 92."""

_PROOF = re.compile(r"[0-9a-f]{64}")
"""An HMAC with SHA-256."""

AHEAD_S = 60.0
"""Seconds that a time on a Node may be ahead of the clock of its reader; further ahead it is no evidence."""

MOST_EARLY = 4096
"""Calls that are kept until the end of their job is known here too. Further ones count as calls that never came."""

MOST_AWAITED = 16_384
"""Calls that are waited for. A further end removes the evidence of its nodes at once."""


class FenceScript(StrEnum):
    """A place of the fence script in slurm.conf. The first fences nodes with slurmd, the second every node."""

    EPILOG = "Epilog"
    PROLOG_SLURMCTLD = "PrologSlurmctld"


@dataclass(frozen=True, slots=True)
class FencedNodes:
    """The Slurm nodes with evidence of each script, at one instant."""

    epilog: frozenset[str] = frozenset()
    prolog_slurmctld: frozenset[str] = frozenset()

    def unfenced(self, nodes: Iterable[str], external: Collection[str] = ()) -> frozenset[str]:
        """Return those of these nodes without a working fence. `external`: those among them without slurmd."""
        return frozenset(
            node
            for node in nodes
            if node not in self.prolog_slurmctld and (node in external or node not in self.epilog)
        )


NO_FENCE = FencedNodes()
"""No node has a working fence."""


class FenceLedger:
    """Keep the last call of each script for each Slurm node, and which calls are due. Instants are of one clock.

    `lifetime_s`: how long a call is evidence. `call_within_s`: how long after the end of a job its calls may come.
    """

    def __init__(self, lifetime_s: float, call_within_s: float) -> None:
        self._lifetime_s = lifetime_s
        self._call_within_s = call_within_s
        self._called: dict[tuple[str, FenceScript], float] = {}
        """When each script called last, by Slurm node."""

        self._awaited: OrderedDict[tuple[int, str, FenceScript], float] = OrderedDict()
        """Until when the calls for jobs that ended may come, the earliest first."""

        self._early: OrderedDict[tuple[int, str, FenceScript], None] = OrderedDict()
        self._fenced = FencedNodes()
        self._holds_until = -math.inf
        self._changed: set[str] = set()

    def call(self, script: FenceScript, node: str, job_id: int, now: float) -> None:
        """Take note of an authenticated call of a script about a placeholder job that has, or had, this node."""
        if (node, script) not in self._called:
            self._holds_until = -math.inf
        self._called[node, script] = now
        self._changed.add(node)
        key = job_id, node, script
        if self._awaited.pop(key, None) is None:
            self._early[key] = None
            self._early.move_to_end(key)
            if len(self._early) > MOST_EARLY:
                self._early.popitem(last=False)

    def end(self, job_id: int, nodes: Iterable[str], scripts: Iterable[FenceScript], now: float) -> None:
        """Take note that a job ended on these nodes: each of these scripts is to call now, if it is installed."""
        scripts = tuple(scripts)
        for node in nodes:
            for script in scripts:
                key = job_id, node, script
                called_early = key in self._early
                self._early.pop(key, None)
                if called_early:
                    continue
                if len(self._awaited) >= MOST_AWAITED:
                    self._remove(node, script)
                    continue
                self._awaited[key] = now + self._call_within_s
                self._holds_until = min(self._holds_until, self._awaited[key])

    def awaits(self, job_id: int, node: str) -> bool:
        """Return whether a script of this node is to call for this job, which ended."""
        return any((job_id, node, script) in self._awaited for script in FenceScript)

    def adopt(self, node: str, script: FenceScript, age_s: float, now: float) -> None:
        """Take over evidence that a process before this one wrote so many seconds ago; later calls are kept."""
        at = now - max(age_s, 0.0)
        if at > self._called.get((node, script), -math.inf):
            self._called[node, script] = at
            self._holds_until = -math.inf

    def drop(self, node: str) -> None:
        """Forget a Slurm node: it is gone, or is another machine now."""
        for script in FenceScript:
            if (node, script) in self._called:
                self._remove(node, script)

    def fenced(self, now: float) -> FencedNodes:
        """Return the nodes with evidence now; the same object as long as nothing changes."""
        if now < self._holds_until:
            return self._fenced
        while self._awaited and (due := next(iter(self._awaited.items())))[1] <= now:
            key, _ = due
            del self._awaited[key]
            self._remove(key[1], key[2])
        for (node, script), at in list(self._called.items()):
            if now - at >= self._lifetime_s:
                self._remove(node, script)
        found = FencedNodes(*(frozenset(node for node, of in self._called if of is script) for script in FenceScript))
        if found != self._fenced:
            self._fenced = found
        expires = min(self._called.values(), default=math.inf) + self._lifetime_s
        self._holds_until = min(expires, next(iter(self._awaited.values()), math.inf))
        return self._fenced

    def last_calls(self, node: str) -> Mapping[FenceScript, float]:
        """Return when each script called last for this node, as far as that is evidence."""
        return {script: self._called[node, script] for script in FenceScript if (node, script) in self._called}

    def nodes(self) -> frozenset[str]:
        """Return the Slurm nodes of which anything is kept."""
        return frozenset(node for node, _ in self._called)

    def take_changed(self) -> frozenset[str]:
        """Return the nodes whose evidence came, was renewed or went since the last call of this."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def _remove(self, node: str, script: FenceScript) -> None:
        if self._called.pop((node, script), None) is not None:
            self._changed.add(node)
            self._holds_until = -math.inf


class FenceProofs:
    """Write and read the evidence that stands on the Nodes of one cluster.

    `keys` are those of the hooks: the first one signs, all verify. `owner`: the name in the marks of this extender.
    """

    def __init__(self, keys: Sequence[bytes], cluster: str, owner: str) -> None:
        if not keys:
            raise ValueError("evidence needs a key: without one no proof can be made")
        self._keys = tuple(derive_key(key, _PURPOSE) for key in keys)
        self._cluster = cluster
        self._owner = f"{owner}: "

    def is_foreign(self, text: str) -> bool:
        """Return whether another extender wrote this annotation, or what is no evidence at all."""
        return bool(text) and not text.startswith(self._owner)

    def written(self, uid: str, slurm_node: str, calls: Mapping[FenceScript, float]) -> str:
        """Return the annotation for the Node with this UID; `calls` are seconds since the epoch."""
        times = tuple(int(calls.get(script, 0)) for script in FenceScript)
        proof = self._proof(self._keys[0], uid, slurm_node, times)
        return f"{self._owner}v{_VERSION}.{'.'.join(map(str, times))}.{proof}"

    def read(self, text: str, uid: str, slurm_node: str) -> dict[FenceScript, int]:
        """Return what the annotation proves of this Node and Slurm node: seconds since the epoch, by script."""
        if len(uid) > LONGEST_NAME or len(slurm_node) > LONGEST_NAME:
            return {}
        times, proof = _parts(text, self._owner)
        if not any(hmac.compare_digest(self._proof(key, uid, slurm_node, times), proof) for key in self._keys):
            return {}
        return _by_script(times)

    def _proof(self, key: bytes, uid: str, slurm_node: str, times: Sequence[int]) -> str:
        text = json.dumps([_VERSION, self._cluster, uid, slurm_node, *times], separators=(",", ":"))
        return hmac.digest(key, text.encode(), hashlib.sha256).hex()


def stated_times(text: str, owner: str) -> dict[FenceScript, int]:
    """Return what an annotation by `owner` states, without its proof: seconds since the epoch, by script."""
    return _by_script(_parts(text, f"{owner}: ")[0])


def _parts(text: str, prefix: str) -> tuple[tuple[int, ...], str]:
    """Return the times and the proof of an annotation; no times and "" if it has another form."""
    nothing: tuple[tuple[int, ...], str] = ((), "")
    if len(text) > _LONGEST + len(prefix) or not text.startswith(prefix):
        return nothing
    version, *times = text.removeprefix(prefix).split(".", len(FenceScript) + 2)
    if len(times) != len(FenceScript) + 1 or version != f"v{_VERSION}" or not _PROOF.fullmatch(proof := times.pop()):
        return nothing
    if not all(part.isascii() and part.isdecimal() and len(part) <= 12 for part in times):
        return nothing
    return tuple(map(int, times)), proof


def _by_script(times: Sequence[int]) -> dict[FenceScript, int]:
    return {script: at for script, at in zip(FenceScript, times, strict=False) if at}
