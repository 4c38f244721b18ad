"""DeviceClasses of a real API server are read, with the extended resource that they stand for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.assembly.informers import DEVICE_CLASSES
from extender.kube.wire.stream import DEVICE_CLASS
from lab.kube import Kubernetes

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with Kubernetes(controllers=False, workdir=tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


def test_a_class_says_for_which_resource_it_stands(kube: Kubernetes) -> None:
    for name, spec in (("plain", {}), ("named", {"extendedResourceName": "example.com/fpga"})):
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
        status, answer = kube.api("POST", DEVICE_CLASSES, body)
        assert status == 201, answer
    text = kube.kubectl("get", "--raw", DEVICE_CLASSES).encode()
    page = DEVICE_CLASS.page(text)
    assert {view.name: view.resource for view in page.views} == {"plain": "", "named": "example.com/fpga"}
    assert not page.unreadable
