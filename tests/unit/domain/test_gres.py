"""Extended resources become GRES by the site's map, and node affinity names the GPU type."""

import pytest

from extender.domain.policy.site import GresRule, TranslationPolicy
from extender.domain.quantity import ONE
from extender.domain.translation.gres import gpu_type, requested_gres, to_gres, with_type
from extender.domain.views import NodeTerm, PodView, Requirement
from extender.domain.wellknown import Reason
from tests.builders.pod_views import a_pod, term

TYPES = TranslationPolicy(gpu_types={"NVIDIA_L4": "l4", "NVIDIA_H100": "h100", "H100_SXM": "h100"})


@pytest.mark.parametrize(
    ("resource", "gres"),
    [
        ("nvidia.com/gpu", "gpu"),
        ("amd.com/gpu", "gpu"),
        ("gpu.intel.com/i915", "gpu"),
        ("gpu.intel.com/xe", "gpu"),
        ("nvidia.com/mig-1g.10gb", "gpu:1g.10gb"),
        ("nvidia.com/mig-1g.10gb.me", "gpu:1g.10gb.me"),
        ("nvidia.com/gpu.shared", "shard"),
    ],
)
def test_devices_of_the_usual_vendors_are_known_without_a_map(resource: str, gres: str) -> None:
    assert to_gres({resource: 2 * ONE}, TranslationPolicy()).gres == {gres: 2}


def test_the_first_rule_that_matches_names_the_gres() -> None:
    policy = TranslationPolicy(gres_rules=(GresRule("a.io/x-big", "large"), GresRule("a.io/x-*", "small:{1}")))
    assert to_gres({"a.io/x-big": ONE, "a.io/x-1.5g": ONE}, policy).gres == {"large": 1, "small:1.5g": 1}


def test_several_stars_are_counted_from_the_left() -> None:
    assert GresRule("*.io/*-gpu", "{2}:{1}").match("acme.io/fast-gpu") == "fast:acme"


def test_a_point_in_a_pattern_is_only_a_point() -> None:
    assert GresRule("a.io/x", "x").match("abio/x") is None


def test_resources_of_one_gres_are_added_up() -> None:
    assert to_gres({"nvidia.com/gpu": 2 * ONE, "amd.com/gpu": ONE}, TranslationPolicy()).gres == {"gpu": 3}


def test_a_resource_that_the_map_does_not_name_is_no_gres_and_is_named() -> None:
    reading = to_gres({"rdma/hca": ONE, "nvidia.com/gpu": ONE}, TranslationPolicy())
    assert (reading.gres, reading.faults) == ({"gpu": 1}, ())
    (unknown,) = reading.unknown
    assert unknown.startswith("rdma/hca: no line")


def test_none_of_a_resource_requests_nothing() -> None:
    reading = to_gres({"rdma/hca": 0, "nvidia.com/gpu": 0}, TranslationPolicy())
    assert (reading.gres, reading.faults, reading.unknown) == ({}, (), ())


def test_what_kubernetes_counts_itself_is_no_gres_and_huge_pages_are_announced() -> None:
    reading = to_gres({"cpu": ONE, "ephemeral-storage": ONE, "pods": ONE, "hugepages-2Mi": 2**21 * ONE}, TYPES)
    assert (reading.gres, reading.faults) == ({}, ())
    (notice,) = reading.notices
    assert notice.text.startswith("hugepages-2Mi:")
    assert notice.reason == Reason.NOT_ACCOUNTED_BY_SLURM


@pytest.mark.parametrize(
    ("resource", "gres", "said"),
    [
        ("gpu", "gpu", "not an extended resource"),
        ("a.io/x", "x:{1}", "has 0 '*'"),
        ("a.io/*", "x:{2}", "has 1 '*'"),
        ("a.io/*", "x:{0}", "has 1 '*'"),
        ("a.io/x", "a:b:c", "<name>:<type>"),
        ("a.io/x", "", "<name>:<type>"),
        ("a.io/x", "a b", "<name>:<type>"),
        # slurmctld would take it for a count.
        ("a.io/x", "gpu:40", "a letter in the type"),
        ("a.io/x", "license/", "license/<name>"),
        ("a.io/x", "license/a:2", "license/<name>"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_when_it_is_made(resource: str, gres: str, said: str) -> None:
    with pytest.raises(ValueError, match="GRES map") as caught:
        GresRule(resource, gres)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod(), ""),
        (a_pod(node_selector={"gpu.nvidia.com/class": "NVIDIA_L4"}), "l4"),
        (a_pod(required_terms=(term(gpu_class=("NVIDIA_L4",)),)), "l4"),
        (a_pod(required_terms=(term(gpu_model=("H100_SXM",)),)), "h100"),
        (a_pod(required_terms=(term(gpu_class=("NVIDIA_L4", "NVIDIA_H100")),)), ""),
        # Two values of one type, two terms of one type: still one type.
        (a_pod(required_terms=(term(gpu_class=("NVIDIA_H100", "H100_SXM")),)), "h100"),
        (a_pod(required_terms=(term(gpu_class=("NVIDIA_H100",)), term(gpu_model=("H100_SXM",)))), "h100"),
        # A term that wants no type allows every type.
        (a_pod(required_terms=(term(gpu_class=("NVIDIA_L4",)), term(zone=("a",)))), ""),
        # Node selector and term hold together.
        (
            a_pod(
                node_selector={"gpu.nvidia.com/class": "NVIDIA_L4"},
                required_terms=(term(gpu_class=("NVIDIA_L4", "NVIDIA_H100")),),
            ),
            "l4",
        ),
        (a_pod(required_terms=()), ""),
        (a_pod(required_terms=(NodeTerm((Requirement("gpu.nvidia.com/class", "NotIn", ("NVIDIA_L4",)),)),)), ""),
    ],
)
def test_exactly_one_allowed_type_is_requested_and_several_leave_it_to_the_candidates(
    pod: PodView, expected: str
) -> None:
    assert gpu_type(pod, TYPES).name == expected
    assert gpu_type(pod, TYPES).notices == ()


def test_a_value_without_a_type_leaves_the_gpus_untyped_and_is_announced() -> None:
    found = gpu_type(a_pod(node_selector={"gpu.nvidia.com/class": "NVIDIA_B200"}), TYPES)
    assert found.name == ""
    (notice,) = found.notices
    assert "NVIDIA_B200" in notice.text
    assert "NVIDIA_L4" in notice.text
    assert notice.reason == Reason.UNKNOWN_GPU_TYPE


def test_a_site_without_a_map_of_types_learns_nothing_of_them() -> None:
    found = gpu_type(a_pod(node_selector={"gpu.nvidia.com/class": "NVIDIA_B200"}), TranslationPolicy())
    assert (found.name, found.notices) == ("", ())


def test_only_untyped_gpus_get_the_type() -> None:
    assert with_type({"gpu": 2, "gpu:1g.10gb": 1, "shard": 4}, "h100") == {"gpu:h100": 2, "gpu:1g.10gb": 1, "shard": 4}
    assert with_type({"gpu": 2}, "") == {"gpu": 2}


SITE = TranslationPolicy(
    gres_rules=(
        GresRule("nvidia.com/gpu", "gpu"),
        GresRule("nvidia.com/gpu.shared", "mps", each=10),
        GresRule("nvidia.com/mig-*", "gpu:{1}"),
        GresRule("amd.com/*_nps*", "gpu:{1}-nps{2}"),
        GresRule("gpu.intel.com/*", "gpu:{1}"),
        GresRule("habana.ai/gaudi", "gpu:gaudi"),
        GresRule("example.com/license-*", "license/{1}"),
        GresRule("rdma/*", "none"),
        GresRule("deviceclass.resource.kubernetes.io/*", "{1}"),
    )
)


@pytest.mark.parametrize(
    ("requested", "gres", "licenses"),
    [
        ({"nvidia.com/gpu": 2}, {"gpu": 2}, {}),
        # A tenth of a GPU each: MPS counts hundredths.
        ({"nvidia.com/gpu.shared": 3}, {"mps": 30}, {}),
        ({"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1}, {"gpu:1g.10gb": 2, "gpu:3g.40gb": 1}, {}),
        ({"amd.com/cpx_nps4": 1}, {"gpu:cpx-nps4": 1}, {}),
        ({"gpu.intel.com/i915": 1, "gpu.intel.com/xe": 1}, {"gpu:i915": 1, "gpu:xe": 1}, {}),
        ({"habana.ai/gaudi": 8}, {"gpu:gaudi": 8}, {}),
        ({"example.com/license-matlab": 2, "nvidia.com/gpu": 1}, {"gpu": 1}, {"matlab": 2}),
        ({"rdma/hca": 1}, {}, {}),
        ({"deviceclass.resource.kubernetes.io/fpga": 1}, {"fpga": 1}, {}),
    ],
)
def test_a_site_s_map_knows_any_vendor_s_devices_their_parts_and_licences(
    requested: dict[str, int], gres: dict[str, int], licenses: dict[str, int]
) -> None:
    reading = to_gres({name: count * ONE for name, count in requested.items()}, SITE)
    assert (reading.gres, reading.licenses, reading.faults) == (gres, licenses, ())


def test_what_slurm_does_not_know_is_announced() -> None:
    (notice,) = to_gres({"rdma/hca": ONE}, SITE).notices
    assert notice.text.startswith("rdma/hca: the site's GRES map has no GRES for it")
    assert notice.reason == Reason.NOT_ACCOUNTED_BY_SLURM


def test_controllers_and_monitors_of_an_intel_gpu_are_not_counted_as_more_of_them() -> None:
    requested = {"gpu.intel.com/i915": ONE, "gpu.intel.com/millicores": 500 * ONE, "gpu.intel.com/i915_monitoring": ONE}
    reading = to_gres(requested, TranslationPolicy())
    assert (reading.gres, reading.faults) == ({"gpu": 1}, ())


@pytest.mark.parametrize(("resource", "said"), [("x.io/a/b", "'a/b'"), ("x.io/gpu:40", "'gpu:40'")])
def test_a_resource_whose_name_makes_no_name_in_slurm_is_a_fault(resource: str, said: str) -> None:
    reading = to_gres({resource: ONE}, TranslationPolicy(gres_rules=(GresRule("x.io/*", "{1}"),)))
    (fault,) = reading.faults
    assert said in fault
    assert "add a line for it to the map" in fault


@pytest.mark.parametrize(
    ("first", "second", "hidden"),
    [
        ("nvidia.com/*", "nvidia.com/gpu", True),
        ("*/gpu", "nvidia.com/gpu", True),
        ("nvidia.com/*", "nvidia.com/mig-*", True),
        ("nvidia.com/gpu", "nvidia.com/gpu", True),
        ("nvidia.com/mig-*", "nvidia.com/*", False),
        ("nvidia.com/gpu", "nvidia.com/gpu.shared", False),
    ],
)
def test_a_line_that_another_one_hides_is_found(first: str, second: str, hidden: bool) -> None:
    assert GresRule(first, "gpu").hides(GresRule(second, "gpu")) is hidden


def test_how_many_of_it_one_resource_is_must_be_some() -> None:
    with pytest.raises(ValueError, match=r"multiplier: 0 for 'a\.io/x' must be at least 1"):
        GresRule("a.io/x", "gpu", each=0)


@pytest.mark.parametrize(
    ("tres", "counts"),
    [
        ("", {}),
        ("gres/gpu", {"gpu": 1}),
        ("gres/gpu:a100,gres/gpu:1g.10gb:2", {"gpu:a100": 1, "gpu:1g.10gb": 2}),
        ("gres:gpu=3, shard:16", {"gpu": 3, "shard": 16}),
        ("gres/bandwidth:4K", {"bandwidth": 4096}),
    ],
)
def test_gres_of_the_authors_own_are_read_with_their_types(tres: str, counts: dict[str, int]) -> None:
    assert requested_gres(tres) == counts
