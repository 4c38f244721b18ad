"""A real kubelet and a driver hand the container the very devices that Slurm allocated to its job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from extender.domain.wellknown import GATE, JOB_ID
from lab.build_slurm import RELEASES
from lab.devices import RESOURCE, template
from lab.kubelet_site import KubeletSite
from lab.pods import container
from lab.site import PodRef
from tests.builders.kubelet_devices import device_nodes, published
from tests.builders.slurm_devices import SlurmDevices

pytestmark = [pytest.mark.lab, pytest.mark.kubelet, pytest.mark.slow]

NAMES, EACH = ("node-1", "node-2"), 4
PODS = 50
SHOW = "env | grep -E '^GPU_DEVICE_[0-9]+='; "
_DEVICE = re.compile(r"^GPU_DEVICE_[0-9]+=(gpu-[0-9]+)$", re.MULTILINE)
SLICES_BACK_S = 90.0
"""A kubelet that restarts removes the ResourceSlices of its Node; the driver publishes them again after 30 s."""


@pytest.fixture(scope="module", params=RELEASES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletSite]:
    """Two nodes of four devices that a driver publishes and prepares."""
    with device_nodes(request.param, NAMES, EACH, {}, tmp_path_factory.mktemp("devices")) as found:
        yield found


def handed_in(pair: KubeletSite, namespace: str, number: int) -> PodRef:
    """A Pod that shows its devices and holds them for a moment: by a ResourceClaim, or by an extended resource."""
    made, more = container(f"{SHOW} sleep 2", memory="64Mi"), dict[str, Any]()
    gpus = 1 + number % 2
    if number % 3:
        template(pair, namespace, f"of-{gpus}", gpus)
        more["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": f"of-{gpus}"}]
        made["resources"]["claims"] = [{"name": "g"}]
    else:
        for kind in ("requests", "limits"):
            made["resources"][kind] = {**made["resources"][kind], RESOURCE: str(gpus)}
    return pair.pod(f"p{number:02d}", namespace, containers=[made], schedulingGates=[{"name": GATE}], **more)


def test_the_container_has_the_devices_of_its_job_also_across_a_restart_of_the_kubelet(
    pair: KubeletSite, measured: Callable[[str], None], record_property: Callable[[str, object], None]
) -> None:
    namespace = pair.namespace("devices")

    def have_ended(count: int) -> bool:
        phases = [one["status"].get("phase") for one in pair.pods(namespace)]
        assert "Failed" not in phases
        return phases.count("Succeeded") >= count

    with SlurmDevices(pair) as slurm:
        pods = [handed_in(pair, namespace, number) for number in range(PODS // 2)]
        pair.wait_for(lambda: have_ended(PODS // 4), "a quarter has ended", timeout_s=300)
        for name in NAMES:
            pair.nodes[name].kubelet.restart()
        pods += [handed_in(pair, namespace, number) for number in range(PODS // 2, PODS)]
        pair.wait_for(lambda: published(pair) == set(NAMES), "the devices are back", timeout_s=SLICES_BACK_S)
        pair.wait_for(lambda: have_ended(PODS), "every Pod has ended", timeout_s=600)
    assert not slurm.faults
    wrong = []
    for ref in pods:
        text = pair.kube.kubectl("logs", "-n", ref.namespace, ref.name)
        pod = pair.read(ref)
        assert pod is not None
        given = {device for _, device in slurm.found.get(int(pod["metadata"]["annotations"][JOB_ID]), ())}
        if not given or set(_DEVICE.findall(text)) != given:
            wrong.append(f"{ref.name}: Slurm {sorted(given)}, container {text!r}")
    measured(f"{pair.release}: {len(pods)} containers on real kubelets, {len(wrong)} with other devices than Slurm's")
    row = {"Slurm": pair.release, "containers": str(len(pods)), "other devices than Slurm's": str(len(wrong))}
    record_property("table: Devices in containers, by the driver's variables", row)
    assert not wrong
