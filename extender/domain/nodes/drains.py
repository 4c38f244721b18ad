"""The reason of a drain of ours: whose it is, and what a later start has to know.

Several extenders may serve one Slurm, each a Kubernetes cluster or scheduler name of its own, and all see every node.
So the words name who drained. Those without a name are an earlier release's, or of a site's own Epilog.

slurmctld keeps one reason for DOWN and for DRAIN (`update_node` in `node_mgr.c`). So a drain of ours on a node that is
DOWN carries the words that stood there, behind its own, and gives them back with its end.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from extender.domain.wellknown import DRAIN_PREFIX

LONGEST = 240
"""Bytes of a reason: slurmdbd keeps 255 (`as_mysql_cluster.c`, a `tinytext`)."""

_CHARACTER = 4
"""Bytes of a character at most: none is cut in two."""

_NAMED = re.compile(rf"{DRAIN_PREFIX} \[([0-9a-f]{{8}})\] ")

_OVER, _END = " <DOWN before: ", ">"
"""Around the words of others. No text of ours has them: what a person says there is told without blanks (`causes`)."""

THEIRS = 80
"""Bytes of them that find room in any case, unless our first text alone leaves less."""

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


def over(said: str, words: str) -> str:
    """The same drain on a node that is DOWN for these words of others; "": for none.

    Our first text stays whole, since a start may know it from there alone; the others make room.
    """
    if not words:
        return said
    theirs, marks = words.encode(), len(_OVER) + len(_END)
    first = len(said.partition("; ")[0].encode())
    ours = _cut(said, max(first, LONGEST - marks - min(len(theirs), THEIRS)))
    room = LONGEST - marks - len(ours.encode())
    return f"{ours}{_OVER}{_cut(words, room)}{_END}" if room > 0 else said


def ours_in(said: str) -> str:
    """What of a drain's reason an extender said itself."""
    return said.partition(_OVER)[0]


def theirs_in(said: str) -> str:
    """What others had said of a node that was DOWN, in the reason of an extender's drain, or in their own; ""."""
    if not said.startswith(DRAIN_PREFIX):
        return said
    return said.partition(_OVER)[2].removesuffix(_END)


def may_be_cut(said: str) -> bool:
    """Whether some of our words may not have found room."""
    return len(said.encode()) > LONGEST - _CHARACTER


def _cut(text: str, size: int) -> str:
    """At most so many bytes of it."""
    return text.encode()[:size].decode(errors="ignore")
