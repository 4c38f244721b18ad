"""Every word of an order reaches Slurm in the form that every release takes, and nothing that was not said does."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from extender.domain.jobs.job import Exclusive, JobOrder, JobRequest, Mark, Mode, RunAs
from extender.slurm.describe import describe
from extender.slurm.placeholder_script import SCRIPT, HookSettings
from slurmclient import InvalidRequestError, JobDescription, Shared
from tests.builders.job_orders import an_order


def described(order: JobOrder, hooks: HookSettings | None = None) -> JobDescription:
    return describe(order, "the mark", hooks or HookSettings())


def said(description: JobDescription) -> set[str]:
    return {field.name for field in fields(description) if getattr(description, field.name) is not None}


def test_an_allocation_says_only_what_it_must() -> None:
    description = described(an_order(mode=Mode.ALLOCATION, immediate=True))
    assert said(description) == {
        "name", "extra", "admin_comment", "comment", "tasks", "cpus_per_task", "minimum_cpus", "minimum_nodes",
        "maximum_nodes", "memory_per_node_mb", "requeue", "current_working_directory",
    }  # fmt: skip


def test_memory_and_the_ban_on_requeuing_are_never_left_out() -> None:
    for mode in (Mode.BATCH, Mode.ALLOCATION, Mode.EXTERNAL):
        description = described(an_order(mode=mode, memory_mb=512))
        assert (description.memory_per_node_mb, description.requeue) == (512, False)


def test_everything_a_pod_can_request_is_sent() -> None:
    request = JobRequest(
        title="team/pod",
        cpus=4,
        memory_mb=1024,
        gres={"gpu:h100": 2, "shard": 3},
        account="physics",
        partition="batch,high",
        qos="normal",
        reservation="week",
        wckey="key",
        comment="mine",
        constraints="a&b",
        prefer="c",
        licenses="matlab:1",
        dependency="afterok:1",
        mcs_label="secret",
        required_nodes=("node-1",),
        exclusive=Exclusive.USER,
        run_as=RunAs(7, 8),
        working_dir="/home/alice",
        time_limit_minutes=90,
        priority=10,
        nice=-5,
        begin="now+1hour",
        deadline=2_000_000_000,
        switches=1,
        switches_wait_s=90,
    )
    order = JobOrder(request, "team/pod-x", Mark("c", "s", "u", 1), Mode.BATCH, immediate=False, excluded=("n1", "n2"))
    description = described(order)
    assert replace(description, script=None, environment=None) == JobDescription(
        name="team/pod-x",
        extra="the mark",
        admin_comment="the mark",
        comment="mine",
        account="physics",
        partition="batch,high",
        qos="normal",
        reservation="week",
        wckey="key",
        mcs_label="secret",
        constraints="a&b",
        prefer="c",
        licenses="matlab:1",
        dependency="afterok:1",
        required_switches=1,
        wait_for_switch_s=90,
        user_id=7,
        group_id=8,
        time_limit_minutes=90,
        begin_time="now+1hour",
        deadline=2_000_000_000,
        priority=10,
        nice=-5,
        tasks=1,
        cpus_per_task=4,
        minimum_cpus=4,
        minimum_nodes=1,
        maximum_nodes=1,
        memory_per_node_mb=1024,
        tres_per_node="gres/gpu:h100:2,gres/shard:3",
        required_nodes=("node-1",),
        excluded_nodes=("n1", "n2"),
        shared=Shared.USER,
        requeue=False,
        current_working_directory="/home/alice",
        standard_input="/dev/null",
        standard_output="/dev/null",
        standard_error="/dev/null",
        kill_warning_signal="USR1",
        kill_warning_flags=("BATCH_JOB",),
        kill_warning_delay_s=60,
    )


@pytest.mark.parametrize(
    ("exclusive", "shared"),
    [
        (None, None),
        (Exclusive.NONE, Shared.NONE),
        (Exclusive.OK, Shared.OVERSUBSCRIBE),
        (Exclusive.USER, Shared.USER),
        (Exclusive.MCS, Shared.MCS),
        (Exclusive.TOPO, Shared.TOPO),
    ],
)
def test_sharing_is_said_in_slurms_one_field_for_it(exclusive: Exclusive | None, shared: Shared | None) -> None:
    assert described(an_order(exclusive=exclusive)).shared is shared


def test_a_whole_node_is_all_of_its_memory_and_shared_with_no_job() -> None:
    sent = described(an_order(exclusive=Exclusive.USER, memory_mb=0, whole_node=True))
    assert (sent.shared, sent.memory_per_node_mb) == (Shared.NONE, 0)


@pytest.mark.parametrize(
    ("requested", "sent"),
    [
        ({"gres": {}}, None),
        ({"gres": {"gpu": 0}}, None),
        ({"gres": {"gpu": 2}}, "gres/gpu:2"),
        ({"tres_per_node": "gpu:a100:2", "gres": {"gpu": 1}}, "gres/gpu:a100:2"),
        ({"tres_per_node": "gres/gpu:1, shard:4"}, "gres/gpu:1,gres/shard:4"),
        ({"tres_per_node": "gres:gpu:1"}, "gres:gpu:1"),
    ],
)
def test_gres_are_named_in_the_form_that_every_release_takes(requested: dict[str, object], sent: str | None) -> None:
    assert described(an_order(**requested)).tres_per_node == sent  # type: ignore[arg-type]  # fields of the request


def test_each_member_gets_its_cpus_on_one_node() -> None:
    gang = described(an_order(members=3, cpus=4))
    assert (gang.tasks, gang.cpus_per_task, gang.minimum_cpus, gang.minimum_nodes, gang.maximum_nodes) == (
        3,
        4,
        12,
        3,
        3,
    )
    wider = described(an_order(members=1, cpus=4, min_nodes=2, max_nodes=5))
    assert (wider.tasks, wider.minimum_nodes, wider.maximum_nodes) == (2, 2, 5)


@pytest.mark.parametrize(("begin", "sent"), [(None, None), (1_800_000_000, 1_800_000_000), ("now+1hour", "now+1hour")])
def test_a_start_is_a_number_or_slurms_own_words(begin: int | str | None, sent: int | str | None) -> None:
    assert described(an_order(begin=begin)).begin_time == sent


def test_the_comment_names_the_pod_unless_its_author_wrote_one() -> None:
    assert described(an_order("a")).comment == "Kubernetes Pod team/a"
    assert described(an_order("a", comment="mine")).comment == "mine"


def test_only_a_queued_batch_placeholder_has_a_script() -> None:
    batch = described(an_order(mode=Mode.BATCH))
    assert batch.script == SCRIPT
    assert batch.external is None
    for order in (
        an_order(mode=Mode.ALLOCATION, immediate=True),
        an_order(mode=Mode.BATCH, immediate=True),
        an_order(mode=Mode.EXTERNAL),
        an_order(mode=Mode.EXTERNAL, immediate=True),
    ):
        assert described(order).script is None
        assert described(order).external is (True if order.mode is Mode.EXTERNAL else None)


def test_a_warning_is_for_the_script_alone_so_that_no_node_gets_a_message_for_an_external_job() -> None:
    for mode, immediate in ((Mode.BATCH, False), (Mode.EXTERNAL, False), (Mode.EXTERNAL, True)):
        description = described(an_order(mode=mode, immediate=immediate))
        assert (description.kill_warning_signal, description.kill_warning_flags) == ("USR1", ("BATCH_JOB",))
    assert described(an_order(mode=Mode.ALLOCATION, immediate=True)).kill_warning_signal is None


def test_the_script_gets_where_the_hooks_are_and_how_to_prove_itself() -> None:
    hooks = HookSettings(url="https://extender:8000", wait_s=20, token=lambda mark: f"token of {mark.workload}")
    environment = described(an_order("workload-7"), hooks=hooks).environment
    assert environment is not None
    assert set(environment[1:]) == {
        "SLURM_EXTENDER_HOOKS=https://extender:8000",
        "SLURM_EXTENDER_TOKEN=token of workload-7",
        "SLURM_EXTENDER_WAIT=20",
    }
    assert environment[0].startswith("PATH=")


def test_a_script_without_hooks_still_has_an_environment() -> None:
    # slurmctld refuses a batch job without any.
    assert described(an_order()).environment


def test_what_slurm_would_misread_is_refused_here() -> None:
    with pytest.raises(InvalidRequestError, match="tres_per_node"):
        described(an_order(tres_per_node="gpu 2"))
