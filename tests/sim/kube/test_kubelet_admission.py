"""The simulator's own count of kubelet's sums, and that the extender's agrees with it."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from extender.domain.placing.fit import Fits, fit
from extender.kube.wire.node import read_node
from extender.kube.wire.pod import read_pod
from simulator.kube.kubelet_admission import exceeded_resources, quantity, requested
from simulator.kube.objects import Json, a_node, a_pod

NODE = a_node("n1", cpu="8", memory="32Gi", pods="3", gpus=2, more={"hugepages-2Mi": "64Mi"})


def one(name: str, **fields: Any) -> Json:
    pod = a_pod(name, **fields)
    pod["metadata"]["uid"] = name
    pod["status"] = {"phase": "Pending"}
    return pod


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2), ("500m", Fraction(1, 2)), ("1.5Gi", 3 * 2**29), ("2e3", 2000), ("3M", 3_000_000), ("1k", 1000)],
)
def test_quantities_are_read(text: str, value: Fraction) -> None:
    assert quantity(text) == value


def test_a_full_node_has_room_for_what_fills_it_and_for_no_more() -> None:
    assert exceeded_resources(NODE, [one("a", cpu="4"), one("b", cpu="4", gpus=2)]) == []
    assert exceeded_resources(NODE, [one("a", cpu="4"), one("b", cpu="4001m")]) == ["cpu: 8001 of 8000"]
    assert exceeded_resources(NODE, [one(name, cpu="1") for name in "abcd"]) == ["pods: 4 of 3"]
    assert exceeded_resources(NODE, [one("a", gpus=3)]) == ["nvidia.com/gpu: 3 of 2"]
    assert exceeded_resources(NODE, [one("a", more={"hugepages-2Mi": "66Mi"})]) == [
        "hugepages-2Mi: 69206016 of 67108864"
    ]


def test_init_containers_sidecars_overhead_and_the_pod_as_a_whole_count_as_they_do_in_kubelet() -> None:
    def init(name: str, cpu: str, **more: str) -> Json:
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    beside = init("s", "2", restartPolicy="Always")
    assert requested(one("a", spec_more={"initContainers": [beside, init("i", "4")]}))["cpu"] == 6
    assert requested(one("a", spec_more={"initContainers": [init("i", "4"), beside]}))["cpu"] == 4
    assert requested(one("a", spec_more={"overhead": {"cpu": "250m"}}))["cpu"] == Fraction(5, 4)
    assert requested(one("a", spec_more={"resources": {"requests": {"cpu": "7"}}}))["cpu"] == 7


def _random_pod(rng: random.Random, name: str) -> Json:
    def sizes() -> dict[str, str]:
        requests = {"cpu": rng.choice(["0", "100m", "1", "2500m"]), "memory": rng.choice(["0", "100M", "4Gi"])}
        return requests | ({"hugepages-2Mi": "16Mi"} if rng.random() < 0.2 else {})

    init = [
        {"name": f"i{number}", "resources": {"requests": sizes()}}
        | ({"restartPolicy": "Always"} if rng.random() < 0.5 else {})
        for number in range(rng.choice([0, 0, 1, 2]))
    ]
    spec: Json = {"initContainers": init} if init else {}
    if rng.random() < 0.2:
        spec["overhead"] = {"cpu": "150m"}
    if rng.random() < 0.2:
        spec["resources"] = {"requests": {"cpu": rng.choice(["3", "500m"])}}
    pod = one(name, cpu=rng.choice(["1u", "500m", "2", "4"]), gpus=rng.choice([0, 0, 1]), spec_more=spec)
    pod["spec"]["containers"].append({"name": "second", "resources": {"requests": sizes()}})
    return pod


@pytest.mark.parametrize("seed", range(200))
def test_the_extender_s_sums_are_the_same(seed: int) -> None:
    rng = random.Random(seed)
    node = read_node(NODE)
    pods = [_random_pod(rng, str(number)) for number in range(rng.choice([1, 2, 3, 4]))]
    views = [read_pod(pod) for pod in pods]
    fits = isinstance(fit(views[0], node, views[1:]), Fits)
    exceeded = exceeded_resources(NODE, pods)
    requests = requested(pods[0])
    # What a Pod does not ask for is not lacking to it, however much others have.
    mine = [one for one in exceeded if requests.get(one.partition(":")[0], 1 if one.startswith("pods") else 0) > 0]
    assert fits is not bool(mine), exceeded
