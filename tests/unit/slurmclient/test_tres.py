from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmclient.tres import Gres, TresError, check_tres_request, parse_gres, parse_tres

names = st.sampled_from(["cpu", "mem", "node", "billing", "gres/gpu", "gres/gpu:h100", "license/matlab"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("(null)", {}),
        ("cpu=4,mem=100M,node=1,billing=4", {"cpu": 4, "mem": 100, "node": 1, "billing": 4}),
        ("mem=2G", {"mem": 2048}),
        ("mem=1.50G", {"mem": 1536}),
        ("mem=512", {"mem": 512}),
        ("mem=2048K", {"mem": 2}),
        ("gres/gpu=2,gres/gpu:h100=2", {"gres/gpu": 2, "gres/gpu:h100": 2}),
        ("gres/craynetwork=2K", {"gres/craynetwork": 2048}),
    ],
)
def test_a_tres_string_gives_counts_with_memory_in_mebibytes(text: str, expected: dict[str, int]) -> None:
    assert parse_tres(text) == expected


@pytest.mark.parametrize("text", ["cpu", "=4", "cpu=x", "cpu=-1", "mem=1X"])
def test_what_is_no_tres_string_is_refused(text: str) -> None:
    with pytest.raises(TresError, match=text):
        parse_tres(text)


@given(st.dictionaries(names, st.integers(0, 2**53)))
def test_writing_and_reading_gives_the_counts_back(counts: dict[str, int]) -> None:
    text = ",".join(f"{name}={count}{'M' if name == 'mem' else ''}" for name, count in counts.items())
    assert parse_tres(text) == counts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("(null)", ()),
        ("N/A", ()),
        ("gpu:8", (Gres("gpu", None, 8),)),
        ("gpu", (Gres("gpu", None, 1),)),
        ("gpu:h100", (Gres("gpu", "h100", 1),)),
        ("gpu:h100:4", (Gres("gpu", "h100", 4),)),
        ("gpu:h100:4(S:0-1)", (Gres("gpu", "h100", 4),)),
        ("gpu:h100:3(IDX:0-1,3)", (Gres("gpu", "h100", 3, "0-1,3"),)),
        ("gpu:(null):2(IDX:0-1)", (Gres("gpu", None, 2, "0-1"),)),
        ("gpu:h100:0(IDX:N/A)", (Gres("gpu", "h100", 0),)),
        ("shard:3(3/4,0/4,0/4,0/4)", (Gres("shard", None, 3, "0"),)),
        ("mps:150(0/100,50/100,100/100),gpu:1(IDX:0)", (Gres("mps", None, 150, "1,2"), Gres("gpu", None, 1, "0"))),
        ("gpu:a100:2(S:0),shard:16", (Gres("gpu", "a100", 2), Gres("shard", None, 16))),
        ("gpu:h100(CNT:2)", (Gres("gpu", "h100", 2),)),
        ("gpu(CNT:3)", (Gres("gpu", None, 3),)),
        ("nic:no_consume:4", (Gres("nic", None, 4),)),
        ("gres/gpu=2", (Gres("gpu", None, 2),)),
        ("bandwidth:lustre:4G", (Gres("bandwidth", "lustre", 4 * 1024**3),)),
    ],
)  # fmt: skip
def test_a_gres_string_gives_its_resources(text: str, expected: tuple[Gres, ...]) -> None:
    assert parse_gres(text) == expected


@pytest.mark.parametrize("text", [":4", "gpu:a:b:c:1", "gpu,,shard"])
def test_what_is_no_gres_string_is_refused(text: str) -> None:
    with pytest.raises(TresError):
        parse_gres(text)


@given(
    st.lists(
        st.builds(Gres, st.sampled_from(["gpu", "shard"]), st.sampled_from([None, "h100", "a100"]), st.integers(0, 64))
    )
)
def test_any_plain_list_of_resources_is_read_back(resources: list[Gres]) -> None:
    text = ",".join(":".join(filter(None, [one.name, one.type, str(one.count)])) for one in resources)
    assert list(parse_gres(text)) == resources


@pytest.mark.parametrize(
    "text", ["gres/gpu:2", "gres/gpu:h100:2", "gres/gpu=2", "gres:gpu:1", "gres/gpu,gres/shard:4", "license/x:1"]
)
def test_requests_that_slurm_reads_pass(text: str) -> None:
    check_tres_request(text)


@pytest.mark.parametrize("text", ["gpu:2", "gpu", "gres/gpu:2,shard:1", "gres/", "gres/gpu:h100:2:3", ""])
def test_requests_that_slurm_calls_invalid_tres_are_refused_with_the_form_to_write(text: str) -> None:
    with pytest.raises(TresError, match=r"gres/gpu:h100:2"):
        check_tres_request(text)
