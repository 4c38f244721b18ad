"""Large lists, of which little has changed since they were read last."""

from __future__ import annotations

import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmclient.wire.envelope import LARGE_BYTES, open_envelope
from slurmclient.wire.list_cache import ListCache
from tests.builders.slurmrestd_fake import FakeRestd, client_of

Json = dict[str, object]
KIND = "application/json"
FIRST, NEXT = "architecture", "name"
NAMES = st.sampled_from([FIRST, NEXT, "nodes", "\\", '{"architecture":', "}, {"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
ENTRIES = st.lists(st.builds(lambda first, rest: {FIRST: first, **rest}, VALUES, st.dictionaries(NAMES, VALUES)))


def nodes(count: int = 400) -> list[Json]:
    return [{FIRST: "x86_64", "name": f"n{number}", "comment": "x" * 600, "state": ["IDLE"]} for number in range(count)]


def written(entries: list[Json], indent: int | None = None) -> bytes:
    """As slurmrestd does it, before and after the list something else."""
    reply = {"meta": {"slurm": {"cluster": "lab"}}, "nodes": entries, "last_update": {"set": True, "number": 5}}
    return json.dumps(reply, indent=indent, separators=None if indent else (",", ":")).encode()


def answer(entries: list[Json]) -> httpx.Response:
    body = written(entries)
    assert len(body) > LARGE_BYTES
    return httpx.Response(200, content=body, headers={"content-type": KIND})


@given(ENTRIES, st.sampled_from([None, 1, 2]))
def test_a_reply_says_the_same_whether_it_is_cut_or_read_as_a_whole(entries: list[Json], indent: int | None) -> None:
    body = written(entries, indent)
    assert (
        ListCache("nodes").open("GET /x", 200, KIND, body).payload == open_envelope("GET /x", 200, KIND, body).payload
    )


@given(st.binary(max_size=80))
def test_any_bytes_are_opened_as_ever(tail: bytes) -> None:
    for body in (tail, b'{"nodes":[{"a":' + tail, b'{"nodes":[{"a":1},{"a":' + tail):
        mine, whole = ListCache("nodes").open("GET /x", 200, KIND, body), open_envelope("GET /x", 200, KIND, body)
        assert (mine.spoken, repr(mine.payload)) == (whole.spoken, repr(whole.payload))


async def test_what_has_not_changed_is_what_was_read_before_and_what_has_is_read_again() -> None:
    first = nodes()
    second: list[Json] = [*nodes()[1:], {**first[0], "name": "new"}]
    second[7] = {**second[7], "state": ["DOWN"], "reason": "broken"}
    fake = FakeRestd().on("GET", "nodes", answer(first), answer(second), answer(second))
    async with client_of(fake) as slurm:
        before, after, again = [await slurm.nodes() for _ in range(3)]
    kept = {node.name: node for node in before}
    assert [node.name for node in after] == [str(raw["name"]) for raw in second]
    assert [node.name for node in after if kept.get(node.name) is not node] == ["n8", "new"]
    assert (after[7].state.value, after[7].reason) == ("DOWN", "broken")
    assert all(one is other for one, other in zip(after, again, strict=True))
    assert after.last_update == 5


async def test_an_entry_that_cannot_be_read_is_reported_each_time() -> None:
    broken: list[Json] = [*nodes(), {FIRST: "x86_64", "comment": "it has no name"}]
    async with client_of(FakeRestd().on("GET", "nodes", answer(broken), answer(broken))) as slurm:
        for _ in range(2):
            found = await slurm.nodes()
            assert (len(found), [one.position for one in found.unreadable]) == (400, [400])


@pytest.mark.parametrize("inner", [{FIRST: 1}, [{FIRST: 1}, {FIRST: 2}]])
async def test_an_object_in_an_entry_that_begins_like_one_is_a_part_of_it(inner: object) -> None:
    entries = [{**node, "inside": inner} for node in nodes()]
    async with client_of(FakeRestd().on("GET", "nodes", answer(entries))) as slurm:
        assert len(await slurm.nodes()) == 400
