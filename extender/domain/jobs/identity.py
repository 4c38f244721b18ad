"""Make and recognise placeholder jobs: by their name, their mark, and the token of their script.

One probe of the name finds every live job of a workload, of all attempts; the mark names the workload and the attempt.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from extender.domain.jobs.checkpoint import Checkpoint, read_checkpoint
from extender.domain.jobs.job import JobView, Mark, RequestDigests
from extender.domain.renewal import replace

NAME_LIMIT = 1024
"""Bytes of a job's name, and of its `extra`: slurmctld refuses 1025 with error 2012."""

_SUFFIX_DIGITS = 10
_ATTEMPT_DIGITS = 10
_WORKLOAD = 253
_VERSION_KEY = "slurm-extender"
_VERSION = 1


def job_name(title: str, cluster: str, scheduler: str, workload: str) -> str:
    """Return `title` and a suffix that no other workload has; at most 1024 bytes, the title is cut to fit.

    The attempt is no part of it: a probe by this one name has to find the jobs of all attempts.
    """
    suffix = _suffix(cluster, scheduler, workload)
    kept = title.encode()[: NAME_LIMIT - len(suffix)]
    return kept.decode(errors="ignore") + suffix  # a character cut in two is left out whole


def is_named_for(name: str, cluster: str, scheduler: str, workload: str) -> bool:
    """Return whether a job of this name is the workload's, whatever its title."""
    return name.endswith(_suffix(cluster, scheduler, workload))


def have_one_suffix(one: str, other: str) -> bool:
    """Return whether jobs of these names are the same workload's; `other` is a result of `job_name`."""
    return one.endswith(other[-_SUFFIX_DIGITS - 1 :])


@lru_cache(maxsize=1024)
def _suffix(cluster: str, scheduler: str, workload: str) -> str:
    identity = json.dumps([cluster, scheduler, workload]).encode()
    return "-" + hashlib.sha256(identity).hexdigest()[:_SUFFIX_DIGITS]


def encode_mark(mark: Mark) -> str:
    """Return the mark as one line of ASCII JSON, for `extra` and `admin_comment`; digests and Pod if there is room.

    Raises `ValueError` if slurmctld could not store it.
    """
    content: dict[str, object] = {
        _VERSION_KEY: _VERSION,
        "c": mark.cluster,
        "s": mark.scheduler,
        "u": mark.workload,
        "a": mark.attempt,
        "e": mark.epoch,
    }
    if mark.grace_s is not None:
        content["g"] = mark.grace_s
    if mark.checkpoint is not None:
        content["h"] = str(mark.checkpoint)
    if mark.slots is not None:
        content["n"] = mark.slots
    if mark.members:
        content["m"] = mark.members
    if mark.pod:
        content["p"] = mark.pod
    if mark.request_digests:
        content["r"] = dict(mark.request_digests)
    text = json.dumps(content, separators=(",", ":"))
    if len(text) > NAME_LIMIT and (mark.request_digests or mark.pod):
        return encode_mark(replace(mark, request_digests=(), pod=mark.pod if mark.request_digests else ""))
    if len(text) > NAME_LIMIT and mark.checkpoint is not None:
        return encode_mark(replace(mark, checkpoint=None))
    if len(text) > NAME_LIMIT:
        raise ValueError(
            f"the mark of workload {mark.workload} has {len(text)} bytes; slurmctld stores at most {NAME_LIMIT}"
        )
    return text


MOST_NAMED = 8
"""First members that a mark names. One that still waits proves that none was bound: they are bound together."""

LATER_MEMBERS = "later"
"""Stands for their names once members come that are bound after them: what waits then proves nothing any more."""

_NAMED_DIGITS = 8
_BETWEEN = ","

LONGEST_TEXT = 4096
"""Characters in which a mark is looked for: four times what slurmctld stores."""


def decode_mark(text: str) -> Mark | None:
    """Return the mark in `text`, `None` where there is none that the extender wrote.

    Other text may stand around it: placeholder scripts of SUNK append `: started`, users and site plug-ins add notes.
    """
    return _decoded(text[:LONGEST_TEXT]) if _VERSION_KEY in text else None


@lru_cache(maxsize=1024)  # of texts that are no longer than LONGEST_TEXT
def _decoded(text: str) -> Mark | None:
    return next(filter(None, map(_mark, _objects(text))), None)


def with_request_digests(text: str, digests: RequestDigests) -> str:
    """Return the text with these digests in its mark. Text without a mark of the extender is returned unchanged."""
    mark = decode_mark(text)
    return text if mark is None else _rewritten(text, mark, replace(mark, request_digests=digests))


def named_members(uids: Iterable[str]) -> str:
    """Return the text by which a mark names the first members of a gang: digests of the UIDs of some of them."""
    return _BETWEEN.join(map(_digest_of, sorted(uids)[:MOST_NAMED]))


def names_member(mark: Mark, uid: str) -> bool:
    """Return whether a mark names a Pod as one of the first members."""
    return _digest_of(uid) in mark.members.split(_BETWEEN)


def _digest_of(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()[:_NAMED_DIGITS]


def with_members(text: str, checkpoint: Checkpoint | None, slots: int, first: Iterable[str] | None = None) -> str:
    """Return the text with this checkpoint in its mark, and with at least so many slots where it says how many.

    If another client reformatted the text, only the mark is returned. `checkpoint` `None`: that of the mark stays.
    `first`: the UIDs of members of whom none was bound yet; `None`: members run already.
    """
    mark = decode_mark(text)
    if mark is None:
        return text
    counted = None if mark.slots is None else max(mark.slots, slots)
    named = LATER_MEMBERS if first is None else named_members(first)
    members = named if mark.members else ""
    changed = replace(mark, checkpoint=checkpoint or mark.checkpoint, slots=counted, members=members)
    new = _rewritten(text, mark, changed)
    found = decode_mark(new)
    as_meant = found is not None and replace(found, request_digests=changed.request_digests) == changed
    return new if as_meant else encode_mark(changed)


def _rewritten(text: str, mark: Mark, changed: Mark) -> str:
    """Return the text with another mark in place of its own, without digests if they are too long for slurmctld."""
    old = encode_mark(mark)
    new = text.replace(old, encode_mark(changed))
    return (
        new if len(new.encode()) <= NAME_LIMIT else text.replace(old, encode_mark(replace(changed, request_digests=())))
    )


def mark_of(job: JobView) -> Mark | None:
    """Return the mark of a job, from `admin_comment` first: the owner of a job may edit `extra`, but not that."""
    return decode_mark(job.admin_comment) or decode_mark(job.extra)


def hook_token(key: bytes, mark: Mark) -> str:
    """Return the token that the job's script sends to `/hooks`: attempt, workload, and a proof in hexadecimal.

    It does not depend on the epoch, since the leader that is called may not be the one that submitted the job; nor on
    later changes of the job.
    """
    signed = encode_mark(
        replace(mark, epoch=0, request_digests=(), grace_s=None, pod="", checkpoint=None, slots=None, members="")
    )
    return f"{mark.attempt}.{mark.workload}.{hmac.digest(key, signed.encode(), hashlib.sha256).hex()}"


def hook_token_matches(key: bytes, mark: Mark, token: str) -> bool:
    """Return whether `token` is the one of this mark; compare in constant time."""
    return hmac.compare_digest(hook_token(key, mark).encode(), token.encode(errors="replace"))


def mark_of_hook_token(keys: Sequence[bytes], cluster: str, scheduler: str, token: str) -> Mark | None:
    """Return workload and attempt of the job for which `token` was made, also of one that is not tracked.

    `None`: the token was made for no job of this cluster and scheduler.
    """
    attempt, _, rest = token[:LONGEST_TEXT].partition(".")
    workload, _, _ = rest.rpartition(".")
    if not (
        attempt.isascii() and attempt.isdecimal() and len(attempt) <= _ATTEMPT_DIGITS and 0 < len(workload) <= _WORKLOAD
    ):
        return None
    mark = Mark(cluster, scheduler, workload, int(attempt))
    try:
        return mark if any(hook_token_matches(key, mark, token) for key in keys) else None
    except ValueError:
        return None  # slurmctld could not store this mark, so no job has it


def _objects(text: str) -> Iterator[object]:
    """Yield every JSON object that begins somewhere in `text` and could be a mark."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = None
        yield found
        at = text.find("{", at + 1)


def _mark(found: object) -> Mark | None:
    if not isinstance(found, dict) or type(found.get(_VERSION_KEY)) is not int or found[_VERSION_KEY] != _VERSION:
        return None
    names: list[Any] = [found.get(key) for key in "csu"]
    numbers: list[Any] = [found.get(key, 0 if key == "e" else None) for key in "ae"]
    if not all(type(name) is str for name in names) or not all(type(n) is int and n >= 0 for n in numbers):
        return None
    grace_s = found.get("g")
    grace_s = grace_s if type(grace_s) is int and grace_s >= 0 else None
    pod, slots, members = found.get("p", ""), found.get("n"), found.get("m", "")
    return replace(
        Mark(*names, *numbers),
        request_digests=_request_digests(found.get("r")),
        grace_s=grace_s,
        pod=pod if type(pod) is str else "",
        checkpoint=read_checkpoint(found.get("h")),
        slots=slots if type(slots) is int and slots >= 0 else None,
        members=members if type(members) is str else "",
    )


def _request_digests(found: object) -> RequestDigests:
    if not isinstance(found, dict) or not all(type(digest) is str for digest in found.values()):
        return ()
    return tuple(sorted(found.items()))
