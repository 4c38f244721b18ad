"""The reason of a drain of ours: whose it is, and what a later start has to know.

Several extenders may serve one Slurm, each a Kubernetes cluster or scheduler name of its own, and all see every node.
So the words name who drained. Those without a name are an earlier release's, or of a site's own Epilog.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from extender.domain.wellknown import DRAIN_PREFIX

LONGEST = 240
"""Bytes of a reason: slurmdbd keeps 255 (`as_mysql_cluster.c`, a `tinytext`)."""

_NAMED = re.compile(rf"{DRAIN_PREFIX} \[([0-9a-f]{{8}})\] ")

ROOM = LONGEST - len(f"{DRAIN_PREFIX} [01234567] ")
"""What is left for the texts."""


def drainer(cluster: str, scheduler: str) -> str:
    """What tells one extender's drains from another's. The fence script computes the same of a job's mark."""
    return hashlib.sha256(f'"c":{json.dumps(cluster)},"s":{json.dumps(scheduler)}'.encode()).hexdigest()[:8]


def reason(owner: str, texts: Iterable[str]) -> str:
    """The words of a drain by `owner`; "": nobody in particular."""
    return f"{DRAIN_PREFIX} {f'[{owner}] ' if owner else ''}{'; '.join(texts)}"[:LONGEST]


def is_ours(said: str, owner: str) -> bool:
    """Whether these are the words of a drain that `owner` may write over and lift."""
    return said.startswith(DRAIN_PREFIX) and named(said) in {"", owner}


def named(said: str) -> str:
    """Who put that drain on the node; "": it does not say."""
    found = _NAMED.match(said)
    return found[1] if found else ""
