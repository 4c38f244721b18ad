"""A job's name and mark say whose it is, and nothing else is taken for them."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.jobs.identity import (
    NAME_LIMIT,
    decode_mark,
    encode_mark,
    hook_token,
    hook_token_matches,
    job_name,
    with_request_digests,
)
from extender.domain.jobs.job import Mark

MARK = Mark(cluster="6f1c", scheduler="slurm", workload="uid-web", attempt=2, epoch=9)
words = st.text(max_size=8)
marks = st.builds(
    Mark,
    st.text(max_size=20),
    st.text(max_size=20),
    st.text(max_size=20),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.dictionaries(words, words, max_size=3).map(lambda request_digests: tuple(sorted(request_digests.items()))),
)


def test_a_job_is_named_after_its_pod_with_a_suffix_of_its_own() -> None:
    name = job_name("team/web", "6f1c", "slurm", "uid-web")
    assert name.startswith("team/web-")
    assert len(name) == len("team/web-") + 10


def test_the_name_is_the_same_in_every_process_and_release() -> None:
    # Jobs outlive an upgrade: a name computed otherwise would not be found by the probe.
    assert job_name("team/web", "6f1c", "slurm", "uid-web") == "team/web-4ce3f37268"


@given(st.tuples(st.text(), st.text(), st.text()), st.tuples(st.text(), st.text(), st.text()))
def test_two_workloads_never_share_a_suffix(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (job_name("x", *one) == job_name("x", *other)) == (one == other)


@given(st.text(min_size=300))
def test_a_long_title_is_cut_between_characters_and_keeps_its_suffix(title: str) -> None:
    short, long = job_name("", "c", "s", "u"), job_name(title * 4, "c", "s", "u")
    assert len(long.encode()) <= NAME_LIMIT
    assert long.endswith(short)
    assert (title * 4).startswith(long.removesuffix(short))


def test_a_title_is_cut_no_more_than_needed() -> None:
    assert len(job_name("a" * 5000, "c", "s", "u")) == NAME_LIMIT


@given(marks)
def test_a_mark_comes_back_as_it_was(mark: Mark) -> None:
    assert decode_mark(encode_mark(mark)) == mark


@given(marks, st.text(), st.text())
def test_other_text_around_a_mark_does_not_hide_it(mark: Mark, before: str, after: str) -> None:
    assert decode_mark(before + encode_mark(mark) + after) == mark


@pytest.mark.parametrize(
    "around", ["{}: started", "note {{ {}", "note {{{}", '{{"note": 1}} {}', '"slurm-extender" {{{{ {}']
)
def test_notes_of_scripts_and_users_do_not_hide_a_mark(around: str) -> None:
    assert decode_mark(around.format(encode_mark(MARK))) == MARK


def test_a_mark_is_one_line_of_ascii() -> None:
    text = encode_mark(replace(MARK, workload="größe\n"))
    assert text.isascii()
    assert text.isprintable()
    assert text.startswith('{"slurm-extender":1,')


@pytest.mark.parametrize(
    "changed",
    [
        {"slurm-extender": 2},
        {"slurm-extender": True},
        {"slurm-extender": "1"},
        {"u": 7},
        {"u": None},
        {"a": "2"},
        {"a": -1},
        {"a": True},
        {"e": 1.5},
    ],
)
def test_a_mark_of_another_form_is_not_the_extenders(changed: dict[str, object]) -> None:
    assert decode_mark(json.dumps(json.loads(encode_mark(MARK)) | changed)) is None


@pytest.mark.parametrize(("missing", "read"), [("e", replace(MARK, epoch=0)), ("a", None), ("u", None)])
def test_only_the_epoch_may_be_missing_from_a_mark(missing: str, read: Mark | None) -> None:
    content = json.loads(encode_mark(MARK))
    del content[missing]
    assert decode_mark(json.dumps(content)) == read


@given(st.text() | st.text().map('{"slurm-extender":1'.__add__) | st.text('{}[]":,1slurm-extender'))
def test_foreign_text_is_no_mark_and_no_error(text: str) -> None:
    assert decode_mark(text) is None


@pytest.mark.parametrize("text", ['"slurm-extender"' + "[" * 100_000, '"slurm-extender"' + '{"a":' * 2000])
def test_deeply_nested_text_is_no_mark_and_no_error(text: str) -> None:
    assert decode_mark(text) is None


def test_a_mark_that_slurm_could_not_store_is_refused_before_it_is_sent() -> None:
    room = NAME_LIMIT - len(encode_mark(replace(MARK, workload="")))
    assert len(encode_mark(replace(MARK, workload="u" * room))) == NAME_LIMIT
    with pytest.raises(ValueError, match="at most 1024"):
        encode_mark(replace(MARK, workload="u" * (room + 1)))


@pytest.mark.parametrize("other", [replace(MARK, attempt=3), replace(MARK, workload="v")])
def test_a_token_belongs_to_one_mark_and_one_key(other: Mark) -> None:
    token = hook_token(b"key", MARK)
    assert hook_token_matches(b"key", MARK, token)
    assert not hook_token_matches(b"key", other, token)
    assert not hook_token_matches(b"other", MARK, token)


def test_a_token_serves_with_every_leader() -> None:
    assert hook_token_matches(b"key", replace(MARK, epoch=MARK.epoch + 1), hook_token(b"key", MARK))


@pytest.mark.parametrize("token", ["", "ü", "\udcff"])
def test_any_text_can_be_tried_as_a_token(token: str) -> None:
    assert not hook_token_matches(b"key", MARK, token)


def test_a_mark_names_its_pod_unless_slurm_cannot_store_that_and_its_token_does_not_depend_on_it() -> None:
    named = replace(MARK, pod="team/train")
    assert decode_mark(encode_mark(named)) == named
    assert hook_token(b"key", named) == hook_token(b"key", MARK)
    long = replace(MARK, workload="u" * 900, request_digests=(("comment", "x" * 100),), pod="p" * 100)
    assert decode_mark(encode_mark(long)) == replace(long, request_digests=(), pod="")
    assert decode_mark(encode_mark(replace(long, workload="u" * 800))) == replace(
        long, workload="u" * 800, request_digests=()
    )


def test_a_mark_keeps_its_digests_only_where_slurm_can_store_them() -> None:
    long = replace(MARK, workload="u" * 900, request_digests=(("comment", "x" * 100),))
    assert len(encode_mark(long)) <= NAME_LIMIT
    assert decode_mark(encode_mark(long)) == replace(long, request_digests=())


@pytest.mark.parametrize("odd", [7, ["x"], {"comment": 7}])
def test_digests_that_cannot_be_read_are_not_known(odd: object) -> None:
    text = json.dumps(json.loads(encode_mark(MARK)) | {"r": odd})
    assert decode_mark(text) == MARK


def test_the_token_of_a_job_is_the_same_whatever_has_been_requested_for_it_since() -> None:
    assert hook_token(b"key", replace(MARK, request_digests=(("qos", "x"),))) == hook_token(b"key", MARK)


@pytest.mark.parametrize("around", ["{}", "{}: started", "note {}"])
def test_new_digests_are_written_into_the_mark_and_nothing_else(around: str) -> None:
    text = with_request_digests(around.format(encode_mark(MARK)), (("qos", "x"),))
    assert text == around.format(encode_mark(replace(MARK, request_digests=(("qos", "x"),))))
    assert with_request_digests("no mark", (("qos", "x"),)) == "no mark"
