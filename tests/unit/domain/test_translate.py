"""A Pod becomes the job that its author and the site mean, or every reason why not."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.jobs.job import Exclusive, GangLayout, GangRestart, JobRequest, Mode, OnNodeFailure
from extender.domain.policy.site import (
    MissingRequests,
    MissingSize,
    TranslationPolicy,
    UnderAccounting,
    UnknownResources,
)
from extender.domain.policy.tenancy import Allowed, PodPolicy, TenancyRule
from extender.domain.translation.annotation_table import BY_NAME
from extender.domain.translation.gres import by_name, requested_gres
from extender.domain.translation.translate import MOST_KEYS, Translated, TranslationRefused, translate
from extender.domain.views import Container, PodView
from extender.domain.wellknown import Reason
from tests.builders.defaults import job_defaults
from tests.builders.pod_views import a_pod, term
from tests.builders.translation import BRIDGE, FREE, NOW, OWN, SUNK, faults, own, reasons, request, translated

STRICT = TranslationPolicy(strict_grace=True, unknown_resources=UnknownResources.REFUSE)
WARNING = replace(FREE, under_accounting=UnderAccounting.WARN)


def test_a_pod_without_annotations_requests_its_size_and_nothing_else() -> None:
    assert request(a_pod(cpu="1500m", memory="1G")) == JobRequest(title="team/web", cpus=2, memory_mb=954)


# Setting -> its text, the field of the job, and what stands there then.
REACHES = {
    "account": ("physics", "account", "physics"),
    "partition": ("a,b", "partition", "a,b"),
    "qos": ("high", "qos", "high"),
    "reservation": ("r", "reservation", "r"),
    "wckey": ("w", "wckey", "w"),
    "comment": ("of two words", "comment", "of two words"),
    "job-name": ("train", "title", "train"),
    "constraints": ("x&y", "constraints", "x&y"),
    "prefer": ("z", "prefer", "z"),
    "licenses": ("m:2", "licenses", "m:2"),
    "dependency": ("afterok:7", "dependency", "afterok:7"),
    "mcs-label": ("l", "mcs_label", "l"),
    "excluded-nodes": ("n[2-3]", "excluded_nodes", ("n2", "n3")),
    "required-nodes": ("n1", "required_nodes", ("n1",)),
    "min-nodes": ("1", "min_nodes", 1),
    "max-nodes": ("2", "max_nodes", 2),
    "exclusive": ("user", "exclusive", Exclusive.USER),
    "user-id": ("1001", "run_as", {"uid": 1001, "gid": 100}),
    "group-id": ("100", "run_as", {"uid": 1001, "gid": 100}),
    "current-working-dir": ("/home/a", "working_dir", "/home/a"),
    "time-limit": ("90", "time_limit_minutes", 90),
    "priority": ("5", "priority", 5),
    "nice": ("-3", "nice", -3),
    "begin": ("now+1hour", "begin", 1003600),
    "deadline": ("2030-03-17T17:46:40Z", "deadline", 1_900_000_000),
    "switches": ("1", "switches", 1),
    "segment": ("2", "segment", 2),
    "on-node-failure": ("keep", "on_node_failure", OnNodeFailure.KEEP),
    "gang-layout": ("pack", "layout", GangLayout.PACK),
    "gang-restart": ("keep-allocation", "restart", GangRestart.KEEP_ALLOCATION),
    "mode": ("batch", "mode", Mode.BATCH),
    "gres": ("gpu:a100:2", "tres_per_node", "gres/gpu:a100:2"),
    "gpu-type": ("l4", "gres", {"gpu:l4": 1}),
    "cpus-per-task": ("4", "cpus", 4),
    "mem-per-node": ("8Gi", "memory_mb", 8192),
}


def test_every_setting_reaches_its_field_of_the_job() -> None:
    assert REACHES.keys() == BY_NAME.keys() - {"gang", "gang-size"}  # these say which Pods get one job
    pod = a_pod(more={"nvidia.com/gpu": "1"}, annotations={OWN + name: text for name, (text, _, _) in REACHES.items()})
    job = asdict(request(pod))
    assert {field: job[field] for _, field, _ in REACHES.values()} == {f: wanted for _, f, wanted in REACHES.values()}


def test_gpus_are_requested_with_the_type_that_affinity_names() -> None:
    policy = replace(FREE, gpu_types={"NVIDIA_L4": "l4"})
    pod = a_pod(more={"nvidia.com/gpu": "2"}, required_terms=(term(gpu_class=("NVIDIA_L4",)),))
    assert request(pod, policy=policy).gres == {"gpu:l4": 2}


def test_a_gpu_type_of_the_authors_own_goes_before_affinity() -> None:
    policy = replace(FREE, gpu_types={"NVIDIA_L4": "l4"})
    pod = a_pod(
        more={"nvidia.com/gpu": "2"},
        node_selector={"gpu.nvidia.com/class": "NVIDIA_L4"},
        annotations=own(gpu_type="l4_24g"),
    )
    assert request(pod, policy=policy).gres == {"gpu:l4_24g": 2}


def test_a_label_value_without_a_type_is_announced_unless_the_author_named_the_type() -> None:
    policy = replace(FREE, gpu_types={"NVIDIA_L4": "l4"})
    pod = a_pod(more={"nvidia.com/gpu": "1"}, node_selector={"gpu.nvidia.com/class": "OTHER"})
    assert reasons(translated(pod, policy=policy)) == [Reason.UNKNOWN_GPU_TYPE]
    assert translated(replace(pod, annotations=own(gpu_type="other")), policy=policy).notices == ()


def test_a_pod_without_gpus_gets_no_event_of_gpu_types_unless_it_named_one() -> None:
    policy = replace(FREE, gpu_types={"NVIDIA_L4": "l4"})
    selector = {"gpu.nvidia.com/class": "OTHER"}
    assert translated(a_pod(node_selector=selector), policy=policy).notices == ()
    assert reasons(translated(a_pod(annotations=own(gpu_type="l4")))) == [Reason.SETTING_WITHOUT_EFFECT]


WHOLE = replace(FREE, missing_requests=MissingRequests.WHOLE_NODE)


@pytest.mark.parametrize(("cpu", "memory", "cpus"), [("", "", 1), ("2", "", 2), ("", "1Gi", 1)])
def test_a_pod_without_requests_gets_a_whole_node_where_the_site_says_so(cpu: str, memory: str, cpus: int) -> None:
    result = translated(a_pod(cpu, memory), policy=WHOLE)
    requested = result.request
    assert (requested.cpus, requested.memory_mb, requested.whole_node) == (cpus, 0, True)
    assert reasons(result) == [Reason.WHOLE_NODE]
    assert not translated(a_pod("1", "1Gi"), policy=WHOLE).request.whole_node


@pytest.mark.parametrize("shared", ["ok", "user", "false"])
def test_a_whole_node_is_not_forced_on_a_pod_that_shares(shared: str) -> None:
    assert "requests no cpu" in faults(a_pod("", "1Gi", annotations=own(exclusive=shared)), policy=WHOLE)[0]


@pytest.mark.parametrize(("words", "whole"), [(None, True), (("none", "false"), True), (("user", "false"), False)])
def test_a_whole_node_is_only_for_pods_that_the_policy_allows_one(words: tuple[str, ...] | None, whole: bool) -> None:
    rule = TenancyRule("tenants", allowed=Allowed(exclusive=words))
    policy = replace(WHOLE, pods=PodPolicy(rules=(rule,)))
    assert isinstance(translate([a_pod("", "")], {}, policy, NOW), Translated) == whole


def test_amounts_of_the_site_stand_in_for_missing_requests_alone() -> None:
    policy = replace(FREE, missing_requests=MissingSize(2, 512))
    for cpu, memory, sized in (("", "", (2, 512)), ("4", "", (4, 512)), ("", "1Gi", (2, 1024)), ("0", "0", (2, 512))):
        requested = request(a_pod(cpu, memory), policy=policy)
        assert (requested.cpus, requested.memory_mb, requested.whole_node) == (*sized, False)


@pytest.mark.parametrize(("cpu", "memory", "missing"), [("", "1Gi", "cpu"), ("0", "1Gi", "cpu"), ("1", "", "memory")])
def test_a_pod_that_requests_no_cpu_or_memory_is_refused(cpu: str, memory: str, missing: str) -> None:
    (sentence,) = faults(a_pod(cpu, memory))
    assert sentence.startswith(f"Pod team/web requests no {missing};")
    assert "above 0" in sentence


def test_a_size_given_by_setting_needs_no_request() -> None:
    pod = a_pod("", "", annotations={BRIDGE + "cpu-per-task": "2", BRIDGE + "mem-per-node": "1Gi"})
    assert (request(pod).cpus, request(pod).memory_mb) == (2, 1024)


@pytest.mark.parametrize("below", [{"cpus_per_task": "2"}, {"mem_per_node": "1"}, {"cpus_per_task": "1m"}])
def test_a_setting_below_the_requests_is_refused(below: dict[str, str]) -> None:
    [fault] = faults(a_pod("4", "8Gi", annotations=own(**below)))
    assert "is less than the" in fault
    assert "jobs.underAccounting" in fault


def test_gres_that_leave_out_devices_of_the_pod_are_refused() -> None:
    result = translate([a_pod(more={"nvidia.com/gpu": "2"}, annotations=own(gres="shard:9"))], {}, FREE, NOW)
    assert isinstance(result, TranslationRefused)
    assert "names no gpu, but the Pod's resources request 2" in result.faults[0]


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_pod_with_thousands_of_keys_is_refused_before_it_costs_others_anything(where: str) -> None:
    few = {f"a{number}.example/k": "v" for number in range(MOST_KEYS)}
    said = f"metadata.{where} has more than 256 entries; remove some of them"
    assert request(having(few, where)).cpus == 1
    assert faults(having(few | {"one.more/k": "v"}, where)) == (said,)


def having(keys: dict[str, str], where: str) -> PodView:
    return a_pod(annotations=keys) if where == "annotations" else a_pod(labels=keys)


def test_a_grace_that_is_longer_than_the_sites_limit_is_refused() -> None:
    policy = replace(FREE, max_pod_grace_s=3600)
    assert request(a_pod(grace_s=3600), policy=policy).title == "team/web"
    result = translate([a_pod(grace_s=3601)], {}, policy, NOW)
    assert isinstance(result, TranslationRefused)
    [fault] = result.faults
    assert "terminationGracePeriodSeconds 3601" in fault
    assert "limits.maxPodGrace" in fault


def test_where_the_site_only_warns_a_setting_below_the_requests_is_obeyed_and_announced() -> None:
    result = translate([a_pod("4", "8Gi", annotations=own(cpus_per_task="2"))], {}, WARNING, NOW)
    assert isinstance(result, Translated)
    assert (result.request.cpus, result.request.memory_mb) == (2, 8192)
    (notice,) = result.notices
    assert "less than the 4 CPUs" in notice.text
    assert notice.reason == Reason.NOT_ACCOUNTED_BY_SLURM


def test_a_setting_that_covers_the_requests_is_nothing_to_announce() -> None:
    assert translated(a_pod("4", "8Gi", annotations=own(cpus_per_task="4", mem_per_node="9Gi"))).notices == ()


def test_a_request_for_gres_that_kubelet_does_not_hand_out_gets_an_event_that_these_are_not_accounted() -> None:
    def warnings_of(gres: str) -> list[str]:
        pod = a_pod(more={"nvidia.com/gpu": "2"}, annotations=own(gres=gres))
        result = translate([pod], {}, WARNING, NOW)
        assert isinstance(result, Translated)
        return [notice.text for notice in result.notices if notice.reason is Reason.NOT_ACCOUNTED_BY_SLURM]

    assert warnings_of("gpu:2,shard:1") == []
    (text,) = warnings_of("shard:9")
    assert "names no gpu" in text
    assert "request 2" in text


def test_a_resource_that_no_line_of_the_map_names_is_announced_and_refuses_no_pod() -> None:
    pod = a_pod(more={"rdma/ib": "1", "deviceclass.resource.kubernetes.io/gpu.example.com": "2"})
    result = translated(pod)
    assert (result.request.gres, reasons(result)) == ({}, [Reason.NOT_ACCOUNTED_BY_SLURM] * 2)
    assert "Slurm does not count it" in result.notices[1].text


def test_a_site_can_refuse_resources_that_no_line_of_its_map_names() -> None:
    strict = replace(FREE, unknown_resources=UnknownResources.REFUSE)
    (fault,) = faults(a_pod(more={"rdma/ib": "1"}), policy=strict)
    assert fault.startswith("rdma/ib: no line")
    assert "the map names nvidia.com/gpu, nvidia.com/mig-*, amd.com/gpu" in fault


@pytest.mark.parametrize("handling", UnknownResources)
def test_gres_of_the_authors_own_say_what_an_unmapped_resource_is(handling: UnknownResources) -> None:
    pod = a_pod(more={"rdma/hca": "1"}, annotations=own(gres="ib:1"))
    result = translated(pod, policy=replace(FREE, unknown_resources=handling))
    assert (result.request.tres_per_node, result.notices) == ("gres/ib:1", ())


@pytest.mark.parametrize(
    ("gres", "enough"), [("gpu:1", False), ("gpu:a:1,gpu:b:1", True), ("gpu:2", True), ("shard:9", False)]
)
def test_gres_of_the_authors_own_must_cover_the_devices_that_kubelet_hands_out(gres: str, enough: bool) -> None:
    result = translate([a_pod(more={"nvidia.com/gpu": "2"}, annotations=own(gres=gres))], {}, FREE, NOW)
    assert isinstance(result, Translated if enough else TranslationRefused)


@pytest.mark.parametrize(
    ("seconds", "grace", "minutes", "least"), [(1, 30, 2, 1), (60, 30, 3, 1), (61, 0, 3, 2), (3600, 600, 72, 60)]
)
def test_the_time_limit_leaves_the_active_deadline_to_kubernetes(
    seconds: int, grace: int, minutes: int, least: int
) -> None:
    requested = request(a_pod(active_deadline_s=seconds, grace_s=grace))
    assert (requested.time_limit_minutes, requested.time_limit_least) == (minutes, least)


def test_a_time_limit_by_annotation_goes_before_the_active_deadline_and_the_site() -> None:
    policy = replace(FREE, defaults=job_defaults(time_limit=7))
    assert (
        request(a_pod(active_deadline_s=60, annotations=own(time_limit="30")), policy=policy).time_limit_minutes == 30
    )
    assert request(a_pod(active_deadline_s=60), policy=policy).time_limit_minutes == 3
    assert request(a_pod(), policy=policy).time_limit_minutes == 7


@pytest.mark.parametrize(
    ("job_s", "pod_s", "minutes", "least"),
    [
        (0, None, 1, 1),
        (60, None, 1, 1),
        (61, None, 2, 2),
        (2**62, None, 2**31 - 1, 2**31 - 1),
        (60, 3600, 1, 1),
        (7200, 60, 3, 1),
    ],
)
def test_the_deadline_of_the_job_above_is_the_time_limit_as_slurm_bridge_counts_it(
    job_s: int, pod_s: int | None, minutes: int, least: int
) -> None:
    result = translate([a_pod(active_deadline_s=pod_s, grace_s=30)], {}, FREE, NOW, job_deadline_s=job_s)
    assert isinstance(result, Translated)
    assert (result.request.time_limit_minutes, result.request.time_limit_least) == (minutes, least)


def test_an_annotation_goes_before_the_deadline_of_the_job_above() -> None:
    result = translate([a_pod(annotations=own(time_limit="1-00:00:00"))], {}, FREE, NOW, job_deadline_s=60)
    assert isinstance(result, Translated)
    assert result.request.time_limit_minutes == 24 * 60


def _begin(pod: PodView, now: float) -> int | str | None:
    result = translate([pod], {}, FREE, now)
    return result.request.begin if isinstance(result, Translated) else None


def test_begin_counts_from_the_creation_of_the_pod_so_that_a_second_request_is_the_same() -> None:
    pod = a_pod(annotations=own(begin="now+60"))
    results = {_begin(pod, now) for now in (NOW, NOW + 900)}
    assert results == {1_000_060}


def test_a_pod_that_was_never_created_counts_from_now() -> None:
    assert request(a_pod(created_at=0.0, annotations=own(begin="now+60"))).begin == 1_000_560


def test_a_deadline_that_has_passed_is_refused() -> None:
    assert request(a_pod(annotations=own(deadline="now+501"))).deadline == 1_000_501
    (sentence,) = faults(a_pod(annotations=own(deadline="now+500")))
    assert "has passed" in sentence


@pytest.mark.parametrize(
    ("tres", "counts"),
    [
        ("", {}),
        ("gres/gpu", {"gpu": 1}),
        ("gres/gpu:a100", {"gpu": 1}),
        ("gres/gpu:a:1,gres/gpu:b=2,gres/shard:3", {"gpu": 3, "shard": 3}),
        ("gres/bandwidth:4K", {"bandwidth": 4096}),
        ("gres/bandwidth:x:1g", {"bandwidth": 2**30}),
    ],
)
def test_gres_of_the_authors_own_are_counted_by_name(tres: str, counts: dict[str, int]) -> None:
    assert by_name(requested_gres(tres)) == counts


def test_sunks_rule_on_the_grace_period_holds_only_in_strict_mode_and_in_its_own_words() -> None:
    strict = TranslationPolicy(strict_grace=True, kill_wait_s=30)
    translated(a_pod(grace_s=3600))
    translated(a_pod(grace_s=24), policy=strict)
    (sentence,) = faults(a_pod(grace_s=25), policy=strict)
    assert sentence.startswith("termination grace period must be less than Slurm KillWait - 5s")


@pytest.mark.parametrize(
    ("requested", "said"),
    [
        ({"min_nodes": "2"}, "at most 1"),
        ({"required_nodes": "a,b", "excluded_nodes": "b,c"}, "both name b"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(requested: dict[str, str], said: str) -> None:
    (sentence,) = faults(a_pod(annotations=own(**requested)))
    assert said in sentence


def test_fewest_nodes_cannot_be_more_than_most_nodes() -> None:
    requested = own(min_nodes="2", max_nodes="1")
    (sentence,) = faults(a_pod(annotations=requested), a_pod(uid="2", name="web-2", annotations=requested))
    assert f'{OWN}min-nodes: "2" is more than {OWN}max-nodes: "1"' in sentence


def test_all_faults_are_said_at_once_and_each_once() -> None:
    pod = a_pod(
        "", "1Gi", more={"rdma/hca": "1"}, grace_s=30, annotations=own(time_limit="x", user_id="0", min_nodes="2")
    )
    said = faults(pod, replace(pod, uid="2", name="web-2"), policy=STRICT)
    for word in ("time-limit", "user-id", "no cpu", "rdma/hca", "grace"):
        assert any(word in sentence for sentence in said), word
    assert len(set(said)) == len(said)


def test_an_unreadable_quantity_is_a_fault_and_not_an_error() -> None:
    assert "'lots'" in faults(a_pod(cpu="lots"))[0]


def test_a_notice_for_a_peers_new_key_does_not_stop_the_job() -> None:
    (notice,) = translated(a_pod(annotations={SUNK + "brand-new": "1"})).notices
    assert SUNK + "brand-new" in notice.text
    assert notice.reason == Reason.UNKNOWN_SLURM_SETTING


def test_slurm_bridges_settings_come_from_the_root_owner() -> None:
    assert translated(a_pod(), root={BRIDGE + "partition": "gpu"}).request.partition == "gpu"


def test_the_pods_of_one_job_get_the_largest_of_each_resource() -> None:
    big = a_pod("4", "1Gi", uid="1", name="a")
    wide = a_pod("1", "9Gi", more={"nvidia.com/gpu": "2"}, uid="2", name="b")
    job = request(big, wide)
    assert (job.members, job.cpus, job.memory_mb, job.gres) == (2, 4, 9216, {"gpu": 2})
    assert job.title == "team/a"


def test_the_pods_of_one_job_must_agree_in_their_settings() -> None:
    one = a_pod(annotations=own(partition="p"))
    (sentence,) = faults(one, a_pod(uid="2", name="web-2", annotations=own(partition="q")))
    assert sentence.startswith("partition: Pods team/web and team/web-2 differ")


def test_a_member_without_a_deadline_leaves_the_job_without_one() -> None:
    other = a_pod(uid="2", name="web-2")
    assert request(a_pod(active_deadline_s=60), other).time_limit_minutes is None
    assert request(a_pod(active_deadline_s=60), replace(other, active_deadline_s=600)).time_limit_minutes == 12


def test_members_of_different_gpu_types_request_none() -> None:
    policy = replace(FREE, gpu_types={"A": "a", "B": "b"})
    one, two = (
        a_pod(more={"nvidia.com/gpu": "1"}, uid=kind, name=kind, node_selector={"gpu.nvidia.com/class": kind})
        for kind in ("A", "B")
    )
    assert request(one, two, policy=policy).gres == {"gpu": 1}


def test_a_pod_of_a_namespace_that_is_not_served_gets_only_that_event() -> None:
    scoped = TranslationPolicy(namespaces=frozenset({"lab", "team"}))
    assert faults(a_pod("", namespace="other"), policy=scoped) == (
        "namespace other is not served by this extender; it serves: lab, team",
    )
    translated(a_pod(), policy=scoped)


def test_no_pods_are_no_workload() -> None:
    with pytest.raises(ValueError, match="at least one Pod"):
        translate([], {}, FREE, NOW)


_ANNOTATIONS = st.dictionaries(
    st.sampled_from([OWN + "time-limit", OWN + "gres", SUNK + "exclusive", BRIDGE + "cpu-per-task", OWN + "begin"]),
    st.text(),
)


@given(_ANNOTATIONS, st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "x"]), st.text()))
def test_whatever_a_pod_says_it_is_translated_or_refused_with_reasons(
    annotations: dict[str, str], requests: dict[str, str]
) -> None:
    pod = a_pod(annotations=annotations, containers=(Container("c", requests=requests),))
    result = translate([pod], {}, FREE, NOW)
    if isinstance(result, Translated):
        assert result.request.cpus >= 1
        assert result.request.memory_mb >= 1
    else:
        assert result.faults
        assert all(fault.strip() for fault in result.faults)
