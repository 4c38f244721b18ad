"""Write and read the reason of an extender's drain: which extender drained, and all that it needs after a restart.

Several extenders may serve one Slurm, each a Kubernetes cluster or scheduler name of its own, and all see every node.
So the reason names the extender. A reason without a name is from an earlier release, or from a site's own Epilog.

slurmctld keeps one reason for DOWN and for DRAIN (`update_node` in `node_mgr.c`). So a drain on a node that is DOWN
keeps the earlier reason behind its own text, and restores it when the drain ends.
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

_BEFORE, _END = " <DOWN before: ", ">"
"""They enclose the words of others. The extender's own text never has them: `quoted` removes blanks."""

EARLIER_REASON_BYTES = 80
"""Bytes of the words of others that are kept in any case, unless the extender's first text alone leaves less."""

_NOT_QUOTED = re.compile(r"[^A-Za-z0-9_.,:/+@#=-]+")

LONGEST_QUOTE = 60
"""Characters of a quote in the extender's own text."""

ROOM = LONGEST - len(f"{DRAIN_PREFIX} [01234567] ")
"""Bytes that are left for the texts."""


def drainer(cluster: str, scheduler: str) -> str:
    """Return the name of an extender in its drains. The fence script computes the same from a job's mark."""
    return hashlib.sha256(f'"c":{json.dumps(cluster)},"s":{json.dumps(scheduler)}'.encode()).hexdigest()[:8]


def reason(owner: str, texts: Iterable[str]) -> str:
    """Return the reason of a drain by `owner`; "": without a name."""
    return f"{DRAIN_PREFIX} {f'[{owner}] ' if owner else ''}{'; '.join(texts)}"[:LONGEST]


def quoted(site_reason: str) -> str:
    """Return the site's reason without blanks, in brackets, to stand behind the extender's text; "": none.

    Every fact that a restarted extender reads from a reason has blanks, so a quote is never read as one.
    """
    quotation = _NOT_QUOTED.sub("_", site_reason).strip("_")[:LONGEST_QUOTE]
    return f" ({quotation})" if quotation else ""


def is_own_drain(reason: str, owner: str) -> bool:
    """Return whether this is the reason of a drain that `owner` may overwrite and lift."""
    return reason.startswith(DRAIN_PREFIX) and named(reason) in {"", owner}


def named(reason: str) -> str:
    """Return the extender that drained the node; "": the reason names none."""
    found = _NAMED.match(reason)
    return found[1] if found else ""


def with_earlier_reason(reason: str, earlier_reason: str) -> str:
    """Append the earlier reason of others to the reason, for a node that is DOWN for it; "": return it unchanged.

    The extender's first text stays whole, since a restarted extender may have no other source; the rest is cut.
    """
    if not earlier_reason:
        return reason
    earlier, marks = earlier_reason.encode(), len(_BEFORE) + len(_END)
    first = len(reason.partition("; ")[0].encode())
    own = _cut(reason, max(first, LONGEST - marks - min(len(earlier), EARLIER_REASON_BYTES)))
    room = LONGEST - marks - len(own.encode())
    return f"{own}{_BEFORE}{_cut(earlier_reason, room)}{_END}" if room > 0 else reason


def own_reason(reason: str) -> str:
    """Return the extender's own part of a drain's reason."""
    return reason.partition(_BEFORE)[0]


def earlier_reason(reason: str) -> str:
    """Return the words of others about a node that was DOWN, from an extender's reason or their own; "": none."""
    if not reason.startswith(DRAIN_PREFIX):
        return reason
    return reason.partition(_BEFORE)[2].removesuffix(_END)


def may_be_cut(reason: str) -> bool:
    """Return whether some of the extender's text may have been cut off."""
    return len(reason.encode()) > LONGEST - _CHARACTER


def _cut(text: str, size: int) -> str:
    """Cut the text to so many bytes."""
    return text.encode()[:size].decode(errors="ignore")
