from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from slurmclient import (
    CapacityError,
    InvalidRequestError,
    NewNode,
    NodeState,
    NodeUpdate,
    NotFoundError,
    ProtocolError,
    RefusedError,
    UnsupportedError,
)
from tests.builders.slurmrestd_fake import FakeRestd, client_of, refusal, reply

DONE = reply({})


def a_node(name: str = "n1", *state: str, **more: object) -> dict[str, object]:
    return {"name": name, "state": list(state or ("IDLE",)), **more}


def listed(*nodes: object) -> httpx.Response:
    return reply({"nodes": list(nodes), "last_update": {"set": True, "infinite": False, "number": 1795235584}})


async def test_the_reason_of_a_node_that_was_resumed_is_not_trusted() -> None:
    raw = a_node("n1", "IDLE", reason="old", reason_set_by_user="root", reason_changed_at={"set": True, "number": 5})
    async with client_of(FakeRestd().on("GET", "nodes", listed(raw))) as slurm:
        (node,) = await slurm.nodes()
    assert (node.reason, node.reason_user, node.reason_time) == ("", "", None)


@pytest.mark.parametrize("words", [("IDLE", "DRAIN"), ("DOWN",), ("IDLE", "FAIL")])
async def test_the_reason_of_a_node_out_of_service_is_reported(words: tuple[str, ...]) -> None:
    async with client_of(FakeRestd().on("GET", "nodes", listed(a_node("n1", *words, reason="ill")))) as slurm:
        (node,) = await slurm.nodes()
    assert node.reason == "ill"


async def test_a_state_is_one_base_word_and_flags() -> None:
    raw = a_node("n1", "MIXED", "DRAIN", "NOT_RESPONDING", "SOMETHING_NEW")
    async with client_of(FakeRestd().on("GET", "nodes", listed(raw))) as slurm:
        (node,) = await slurm.nodes()
    assert (node.state, node.flags) == (
        NodeState.MIXED,
        frozenset({"DRAIN", "NOT_RESPONDING", "SOMETHING_NEW"}),
    )
    assert (node.drained, node.responding) == (True, False)


async def test_one_odd_node_is_left_out_and_reported() -> None:
    answer = listed(a_node("n1"), {"state": ["IDLE"]}, "nonsense", a_node("n2"))
    async with client_of(FakeRestd().on("GET", "nodes", answer)) as slurm:
        nodes = await slurm.nodes()
    assert [node.name for node in nodes] == ["n1", "n2"]
    assert (nodes[0].name, [node.name for node in nodes[1:]], len(nodes)) == ("n1", ["n2"], 2)
    assert [(one.position, one.why) for one in nodes.unreadable] == [
        (1, "ProtocolError: name is missing"),
        (2, "not an object but of type str"),
    ]
    assert nodes.last_update == 1795235584


async def test_fields_that_are_missing_null_or_of_another_type_do_not_fail_a_node() -> None:
    raw = a_node("n1", cpus=None, gres={}, features="a,b", free_mem={}, weight="7", comment=None, partitions=None)
    async with client_of(FakeRestd().on("GET", "nodes", listed(raw))) as slurm:
        (node,) = await slurm.nodes()
    assert (node.cpus, node.gres, node.features, node.free_memory_mb) == (0, (), ("a", "b"), None)
    assert (node.weight, node.comment, node.partitions) == (7, "", ())


@pytest.mark.parametrize("payload", [{}, {"nodes": None}, {"nodes": {}}])
async def test_a_missing_list_of_nodes_is_not_a_cluster_without_nodes(payload: dict[str, object]) -> None:
    async with client_of(FakeRestd().on("GET", "nodes", reply(payload))) as slurm:
        with pytest.raises(ProtocolError, match="no list 'nodes'"):
            await slurm.nodes()


async def test_changes_of_nodes_are_requested_only_where_that_works() -> None:
    for release, query in (("26.05.5", b"update_time=uts1795235584"), ("26.05.2", b""), ("25.11.8", b"")):
        restd = FakeRestd(44, release=release).on("GET", "nodes", listed(a_node()))
        async with client_of(restd) as slurm:
            nodes = await slurm.nodes_if_changed(1795235584)
        assert nodes is not None
        assert restd.requests[0].url.query == query


async def test_unchanged_nodes_are_none() -> None:
    restd = FakeRestd(45, release="26.05.5").on("GET", "nodes", httpx.Response(304))
    async with client_of(restd) as slurm:
        assert await slurm.nodes_if_changed(1795235584) is None


async def test_one_node_is_read_by_its_encoded_name() -> None:
    restd = FakeRestd().on("GET", "node/a%2Bb", listed(a_node("a+b")))
    async with client_of(restd) as slurm:
        assert (await slurm.node("a+b")).name == "a+b"


async def test_a_node_that_is_merely_not_in_the_answer_is_not_gone() -> None:
    async with client_of(FakeRestd().on("GET", "node/n1", listed(a_node("n2")))) as slurm:
        with pytest.raises(ProtocolError, match="neither node 'n1' nor an error"):
            await slurm.node("n1")


async def test_a_node_that_cannot_be_read_is_not_gone() -> None:
    async with client_of(FakeRestd().on("GET", "node/n1", listed({"state": []}))) as slurm:
        with pytest.raises(ProtocolError, match="cannot be read"):
            await slurm.node("n1")


NUMERIC = ["123", "007", "1e3", "-5", "0x1f", "null", "true", "NaN", "inf", "1.5"]


@pytest.mark.parametrize("name", NUMERIC)
async def test_a_name_that_slurmrestd_would_not_take_for_text_never_stands_in_a_path(name: str) -> None:
    restd = FakeRestd().on("GET", "nodes", listed(a_node("n1"), a_node(name))).on("POST", "nodes", DONE)
    async with client_of(restd) as slurm:
        assert (await slurm.node(name)).name == name
        await slurm.update_node(name, NodeUpdate(comment="x"))
    assert [request.url.path.rpartition("/")[2] for request in restd.requests] == ["nodes", "nodes"]
    assert restd.requests[1].read() == b'{"name":["%s"],"comment":"x"}' % name.encode()


async def test_a_numeric_name_that_no_node_has_is_not_found() -> None:
    async with client_of(FakeRestd().on("GET", "nodes", listed(a_node("n1")))) as slurm:
        with pytest.raises(NotFoundError, match="no node '123' among 1"):
            await slurm.node("123")


async def test_a_numeric_name_that_an_odd_node_may_have_is_not_gone() -> None:
    async with client_of(FakeRestd().on("GET", "nodes", listed({"state": []}))) as slurm:
        with pytest.raises(ProtocolError, match="cannot be read"):
            await slurm.node("123")


@pytest.mark.parametrize("name", ["", "n[1-9]", "n1,n2", "a b", "a/b", "n1\n"])
async def test_a_name_that_would_mean_several_nodes_is_not_sent(name: str) -> None:
    restd = FakeRestd()
    async with client_of(restd) as slurm:
        for call in (
            slurm.node(name),
            slurm.update_node(name, NodeUpdate(comment="x")),
            slurm.update_nodes(["n1", name], NodeUpdate(comment="x")),
            slurm.delete_node(name),
        ):
            with pytest.raises(InvalidRequestError, match="one plain name"):
                await call
    assert restd.requests == []


async def test_an_update_says_what_is_said_and_nothing_else() -> None:
    restd = FakeRestd(45, release="26.05.5").on("POST", "node/n1", DONE)
    async with client_of(restd) as slurm:
        await slurm.update_node("n1", NodeUpdate(state=("DRAIN",), reason="ill"))
        await slurm.update_node("n1", NodeUpdate(state=("RESUME",)))
        full = NodeUpdate(
            resume_after_s=60,
            comment="",
            extra="e",
            features=("a", "b"),
            active_features=(),
            gres="gpu:2",
            topology="tree:s1",
            address="10.0.0.2",
            weight=3,
        )
        await slurm.update_node("n1", full)
    assert restd.bodies == [
        {"state": ["DRAIN"], "reason": "ill"},
        {"state": ["RESUME"]},
        {
            "resume_after": {"set": True, "infinite": False, "number": 60},
            "comment": "",
            "extra": "e",
            "features": ["a", "b"],
            "features_act": [],
            "gres": "gpu:2",
            "topology_str": "tree:s1",
            "address": ["10.0.0.2"],
            "weight": {"set": True, "infinite": False, "number": 3},
        },
    ]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NodeUpdate(), "nothing to change"),
        (lambda: NodeUpdate(state=("DRIAN",)), "'DRIAN' cannot be set; allowed: "),
        (lambda: NodeUpdate(state=("DRAIN",)), "needs a reason"),
        (lambda: NodeUpdate(state=("DOWN",)), "needs a reason"),
    ],
)
def test_an_update_that_slurm_would_misread_is_refused(make: Callable[[], NodeUpdate], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        make()


async def test_an_unknown_node_is_not_found_whatever_the_status() -> None:
    for status in (500, 422):
        restd = FakeRestd().on("POST", "node/n1", refusal(2018, status)).on("DELETE", "node/n1", refusal(2018, status))
        async with client_of(restd) as slurm:
            with pytest.raises(NotFoundError):
                await slurm.update_node("n1", NodeUpdate(comment="x"))
            with pytest.raises(NotFoundError):
                await slurm.delete_node("n1")


async def test_several_nodes_are_updated_in_one_request() -> None:
    restd = FakeRestd(42).on("POST", "nodes", DONE)
    async with client_of(restd) as slurm:
        await slurm.update_nodes(["n1", "n2"], NodeUpdate(state=("RESUME",)))
        await slurm.update_nodes([], NodeUpdate(state=("RESUME",)))
    assert restd.bodies == [{"name": ["n1", "n2"], "state": ["RESUME"]}]


async def test_before_24_11_nodes_are_updated_one_by_one() -> None:
    async with client_of(FakeRestd(41, release="24.05.4")) as slurm:
        with pytest.raises(UnsupportedError, match=r"Slurm 24\.11"):
            await slurm.update_nodes(["n1"], NodeUpdate(state=("RESUME",)))


async def test_a_new_node_is_one_line_of_slurm_conf() -> None:
    restd = FakeRestd(45, release="26.05.5").on("POST", "new/node", DONE)
    node = NewNode(
        name="k8s-1",
        cpus=64,
        address="10.0.0.1",
        sockets=2,
        cores_per_socket=16,
        threads_per_core=2,
        real_memory_mb=512000,
        features=("k8s", "h100"),
        gres="gpu:h100:4",
        gres_conf="name=gpu,type=h100,count=4,file=/dev/nvidia[0-3]",
        topology="tree:s1,block:b1",
        weight=5,
    )
    async with client_of(restd) as slurm:
        await slurm.new_node(node)
    assert restd.bodies == [
        {
            "node_conf": "NodeName=k8s-1 NodeAddr=10.0.0.1 CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 "
            "RealMemory=512000 Feature=k8s,h100 Gres=gpu:h100:4 "
            "GresConf=name=gpu,type=h100,count=4,file=/dev/nvidia[0-3] Topology=tree:s1,block:b1 Weight=5 "
            "State=EXTERNAL"
        }
    ]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NewNode(name="n[1-9]", cpus=1), "one plain name"),
        (lambda: NewNode(name="n1 State=DOWN", cpus=1), "one plain name"),
        (lambda: NewNode(name="n1", cpus=1, state="IDLE"), "EXTERNAL, CLOUD or FUTURE"),
        (lambda: NewNode(name="n1", cpus=1, gres="gpu:1"), "needs a gres_conf"),
        (lambda: NewNode(name="n1", cpus=1, address="1.2.3.4 CPUs=9"), "without white space"),
        (lambda: NewNode(name="n1", cpus=1, features=("",)), "not empty"),
    ],
)
def test_a_new_node_that_slurm_would_misread_is_refused(make: Callable[[], NewNode], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        make()


async def test_new_nodes_need_25_11() -> None:
    async with client_of(FakeRestd(43, release="25.05.9")) as slurm:
        with pytest.raises(UnsupportedError, match=r"v0\.0\.44"):
            await slurm.new_node(NewNode(name="n1", cpus=1))


async def test_a_topology_that_an_older_parser_would_drop_is_not_sent() -> None:
    async with client_of(FakeRestd(42, release="24.11.5")) as slurm:
        with pytest.raises(UnsupportedError, match=r"v0\.0\.43"):
            await slurm.update_node("n1", NodeUpdate(topology="tree:s1"))
        with pytest.raises(UnsupportedError, match=r"v0\.0\.43"):
            await slurm.update_nodes(["n1"], NodeUpdate(topology="tree:s1"))


async def test_a_name_that_slurmrestd_would_guess_to_be_a_number_is_neither_deleted_nor_made() -> None:
    restd = FakeRestd(45, release="26.05.5")
    async with client_of(restd) as slurm:
        with pytest.raises(InvalidRequestError, match="a number or a constant"):
            await slurm.delete_node("1e3")
        with pytest.raises(InvalidRequestError, match="could not be deleted"):
            await slurm.new_node(NewNode(name="1e3", cpus=1))
    assert restd.requests == []


async def test_a_node_that_exists_is_refused_and_one_in_use_is_kept() -> None:
    restd = FakeRestd(45, release="26.05.5").on("POST", "new/node", refusal(2168, 422))
    restd.on("DELETE", "node/n1", refusal(2016, 422))
    async with client_of(restd) as slurm:
        with pytest.raises(RefusedError) as caught:
            await slurm.new_node(NewNode(name="n1", cpus=1))
        with pytest.raises(CapacityError):
            await slurm.delete_node("n1")
    assert caught.value.slurm_errno == 2168
