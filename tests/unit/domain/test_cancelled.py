"""The note of a person's cancel speaks of one Pod and of one wish, in every process and release."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from extender.domain.jobs.cancelled import Cancelled, decode_cancelled, digest, encode_cancelled
from extender.domain.jobs.job import Exclusive, JobRequest, Mode, RunAs

PLAIN = JobRequest("team/web", 2, 1024)
CHANGES: dict[str, object] = {
    "mode": Mode.BATCH,
    "gres": {"gpu": 1},
    "exclusive": Exclusive.USER,
    "run_as": RunAs(1, 2),
    "excluded_nodes": ("n1",),
    "required_nodes": ("n1",),
}


def test_a_note_is_read_as_it_was_written_and_for_its_own_pod_only() -> None:
    said_no = Cancelled(7, digest(PLAIN))
    text = encode_cancelled(said_no, "uid-web")
    assert decode_cancelled(text, "uid-web") == said_no
    assert decode_cancelled(text, "uid-copy") is None


@pytest.mark.parametrize(
    "text", ["", "yes", "{}", "[1]", "[" * 100_000, '{"pod":"u","job":"1","request":""}', '{"pod":"u","job":1}']
)
def test_other_text_says_nothing(text: str) -> None:
    assert decode_cancelled(text, "u") is None


@pytest.mark.parametrize("name", [field.name for field in fields(JobRequest)])
def test_it_does_not_speak_of_another_wish(name: str) -> None:
    other = CHANGES.get(name, "other" if isinstance(getattr(PLAIN, name), str) else 77)
    changed = replace(PLAIN, **{name: other})  # type: ignore[arg-type]
    assert Cancelled(7, digest(PLAIN)).speaks_of(replace(PLAIN))
    assert not Cancelled(7, digest(PLAIN)).speaks_of(changed)
    assert not Cancelled(7, digest(PLAIN)).speaks_of(None)
    assert Cancelled(7, digest(changed)).speaks_of(replace(changed))


def test_the_order_in_which_things_were_said_means_nothing() -> None:
    one, other = ({"gpu": 1, "shard": 2}, {"shard": 2, "gpu": 1})
    assert digest(replace(PLAIN, gres=one)) == digest(replace(PLAIN, gres=other))


def test_the_digest_is_the_same_in_every_release() -> None:
    # Another digest would submit everything again that people had cancelled before an upgrade.
    assert digest(PLAIN) == "6f96579a5ba8833a"
    assert digest(replace(PLAIN, gres={"gpu": 1}, mode=Mode.BATCH, run_as=RunAs(1, 2))) == "0822056f371dcf67"
