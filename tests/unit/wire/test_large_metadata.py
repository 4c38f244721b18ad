"""Of metadata as large as etcd takes, no more is kept than by which its Pod is refused."""

from __future__ import annotations

import sys

import pytest

from extender.domain.policy.site import TranslationPolicy
from extender.domain.translation.translate import TranslationRefused, translate
from extender.domain.views import PodView
from extender.domain.wellknown import JOB_ID
from extender.kube.wire.pod import read_pod

OWN = "slurm-extender.io/"
AT_MOST = 200_000
"""Bytes of a Pod's annotations and labels in memory; etcd takes 1.5 MB of it, and there may be thousands of Pods."""


def pod(**meta: object) -> PodView:
    return read_pod({"metadata": {"name": "a", "namespace": "b", "uid": "u", **meta}, "spec": {"containers": []}})


def size(view: PodView) -> int:
    found = (view.annotations, view.labels)
    return sum(sys.getsizeof(one) + sum(map(sys.getsizeof, [*one.keys(), *one.values()])) for one in found)


@pytest.mark.parametrize(
    "meta",
    [
        {"annotations": {f"a{number}.example/k": "v" * 20 for number in range(12_000)}},
        {"annotations": {f"{OWN}k{number}": "v" * 20 for number in range(12_000)}},
        {"labels": {f"a{number}.example/k": "v" * 20 for number in range(12_000)}},
        {"annotations": {OWN + "comment": "v" * 250_000}},
        {"annotations": {"somebody.example/k": "v" * 250_000}},
    ],
)
def test_of_large_metadata_little_is_kept(meta: dict[str, object]) -> None:
    assert size(pod(**meta)) < AT_MOST


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_pod_of_too_many_keys_is_still_refused(where: str) -> None:
    view = pod(**{where: {f"a{number}.example/k": "v" for number in range(12_000)}})
    assert translate([view], {}, TranslationPolicy(), 0.0) == TranslationRefused(
        (f"metadata.{where} has more than 256 entries; remove some of them",)
    )


def test_a_text_of_the_extender_that_is_too_long_is_still_refused() -> None:
    outcome = translate([pod(annotations={OWN + "comment": "v" * 250_000})], {}, TranslationPolicy(), 0.0)
    assert isinstance(outcome, TranslationRefused)
    assert any("has more than 4096 characters" in fault for fault in outcome.faults)


def test_of_many_annotations_those_that_are_read_are_kept() -> None:
    many = {f"a{number}.example/k": "v" for number in range(12_000)}
    assert pod(annotations=many | {JOB_ID: "7"}).annotations[JOB_ID] == "7"
