"""Summarise the end of a Pod for its job: the text is appended to the job's comment before the job is ended."""

from __future__ import annotations

from extender.domain.views import PodView

LONGEST_COMMENT = 1024
"""Bytes; slurmctld refuses a longer comment with error 2012."""

_ORDINARY = {"", "Error", "Completed"}
"""Reasons of a container that add nothing to its exit code."""

_LEAST = 8
"""Bytes of a note that are worth a write."""


def outcome_of(pod: PodView) -> str:
    """Return the end of a finished Pod: `Succeeded`, `Failed: exit 137 OOMKilled`, `evicted: ...`, `deleted`."""
    details = _exit(pod)
    if pod.deleted_at is not None or not pod.finished:
        kind = "deleted"
    elif pod.status_reason == "Evicted":
        kind, details = "evicted", [pod.status_message] if pod.status_message else details
    else:
        kind = pod.phase
        details = [pod.status_reason, *details] if pod.status_reason else details
    return _one_line(": ".join((kind, ", ".join(details))) if details else kind)


def with_note(comment: str, note: str) -> str | None:
    """Return the comment with the note behind it, cut to Slurm's limit; `None`: it has it already, or has no room."""
    if note in comment:
        return None
    head = f"{comment}; " if comment else ""
    room = LONGEST_COMMENT - len(head.encode())
    if room < min(_LEAST, len(note.encode())):
        return None
    kept = note.encode()[:room].decode(errors="ignore")
    return None if comment.endswith(f"; {kept}") else head + kept


def _exit(pod: PodView) -> list[str]:
    failure = pod.failure
    if failure is None:
        return []
    parts = [f"exit {failure.exit_code}"]
    if failure.reason not in _ORDINARY:
        parts.append(failure.reason)
    if len(pod.containers) + len(pod.init_containers) > 1 and failure.container:
        parts.append(f"(container {failure.container})")
    return [" ".join(parts)]


def _one_line(text: str) -> str:
    """Remove line ends, which other programs that read comments take for the end of a record."""
    return " ".join(text.split())
