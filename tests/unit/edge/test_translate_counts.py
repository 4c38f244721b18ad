"""`slurm-extender translate` says how many Pods and jobs there will be, what is rounded, and what it skipped."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from extender.cli.sbatch import sbatch_line
from extender.cli.translate import translate_manifests
from extender.domain.jobs.job import Exclusive, GangLayout, JobRequest, OnNodeFailure, RunAs
from extender.kube.wire.manifest_templates import DEEPEST_TEMPLATE, MOST_SEARCHED, MOST_TEMPLATES

SIZE = "resources: {requests: {cpu: 100m, memory: 100M}}"
POD = f"{{spec: {{schedulerName: slurm, containers: [{{name: m, image: i, {SIZE}}}]}}}}"


def said(text: str) -> Result:
    return CliRunner().invoke(translate_manifests, ["-"], input=text)


def workload(kind: str, spec: str, api: str = "apps/v1") -> str:
    return f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: w}}\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("kind", "spec", "sentence"),
    [
        ("Deployment", f"{{replicas: 20, template: {POD}}}", "20 Pods, 20 Slurm jobs; each Pod gets a job of its own"),
        ("StatefulSet", f"{{template: {POD}}}", "1 Pod, 1 Slurm job"),
        ("DaemonSet", f"{{template: {POD}}}", "one Pod on each matching Node, and a Slurm job for each Pod"),
        ("Job", f"{{parallelism: 3, completions: 9, template: {POD}}}", "9 Pods, 3 at a time, 9 Slurm jobs; each"),
        ("Job", f"{{parallelism: 3, template: {POD}}}", "3 Pods, 3 Slurm jobs; each"),
        (
            "CronJob",
            f"{{jobTemplate: {{spec: {{completions: 2, template: {POD}}}}}}}",
            "2 Pods, 1 at a time, 2 Slurm jobs for each run; each",
        ),
        (
            "JobSet",
            f"{{replicatedJobs: [{{name: a, replicas: 2, template: {{spec: {{parallelism: 4, template: {POD}}}}}}}]}}",
            "8 Pods, 8 Slurm jobs; each",
        ),
        ("LeaderWorkerSet", f"{{replicas: 2, leaderWorkerTemplate: {{workerTemplate: {POD}}}}}", "2 Pods, 2 Slurm"),
    ],
)
def test_the_numbers_of_pods_and_jobs_are_stated(kind: str, spec: str, sentence: str) -> None:
    result = said(workload(kind, spec))
    assert result.exit_code == 0
    assert f"# {sentence}" in result.stdout


def test_a_number_of_pods_that_the_api_server_would_refuse_is_refused() -> None:
    result = said(workload("Deployment", f"{{replicas: many, template: {POD}}}"))
    assert result.exit_code == 1
    assert "spec.replicas: it must be a whole number of 64 bits" in result.stderr


def test_roundings_name_both_amounts() -> None:
    assert (
        "# rounded up: CPU 100m to 1; memory 100M to 96 MiB\n"
        in said(workload("Deployment", f"{{template: {POD}}}")).stdout
    )
    whole = POD.replace("100m", "2").replace("100M", "1Gi")
    assert "rounded" not in said(workload("Deployment", f"{{template: {whole}}}")).stdout


def test_a_deadline_that_becomes_a_time_limit_is_a_rounding() -> None:
    pod = POD.replace("{schedulerName", "{activeDeadlineSeconds: 100, schedulerName")
    result = said(workload("Deployment", f"{{template: {pod}}}"))
    assert "activeDeadlineSeconds 100 to a time limit of 4 min (start and grace included)" in result.stdout


def test_objects_without_pods_are_named_as_skipped_and_do_not_fail() -> None:
    others = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\nkind: TrainJob\nmetadata: {name: t}\n---\n"
    result = said(others + workload("Deployment", f"{{template: {POD}}}"))
    assert result.exit_code == 0
    assert "# skipped Service s: it has no Pod template\n" in result.stdout
    assert "# skipped TrainJob t: its Pods come from the training runtime" in result.stdout
    assert "# total: Pods: 1, Slurm jobs: 1, skipped objects: 2\n" in result.stdout


def test_templates_of_kinds_that_are_not_known_are_found_with_their_replicas() -> None:
    spec = f"{{pytorchReplicaSpecs: {{Master: {{template: {POD}}}, Worker: {{replicas: 7, template: {POD}}}}}}}"
    result = said(workload("PyTorchJob", spec, "kubeflow.org/v1"))
    assert result.exit_code == 0
    assert "# PyTorchJob w, spec.pytorchReplicaSpecs.Master.template, namespace default" in result.stdout
    assert "# 7 Pods, 7 Slurm jobs; each Pod gets a job of its own" in result.stdout
    assert "# total: Pods: 8, Slurm jobs: 8\n" in result.stdout


def test_a_gang_of_several_templates_of_such_a_kind_is_one_job() -> None:
    gang = POD.replace(
        "{spec", "{metadata: {annotations: {slurm-extender.io/gang: r, slurm-extender.io/gang-size: '3'}}, spec"
    )
    spec = f"{{headGroupSpec: {{template: {gang}}}, workerGroupSpecs: [{{replicas: 2, template: {gang}}}]}}"
    result = said(workload("RayCluster", spec, "ray.io/v1"))
    assert result.stdout.count("job:") == 1
    assert "# gang r is a gang: 3 Pods get this one job, and start together\n" in result.stdout


def test_what_resembles_a_template_and_is_none_is_skipped() -> None:
    odd = POD.replace("100m", "[1]")
    result = said(workload("Thing", f"{{a: {odd}, b: {POD}}}"))
    assert result.exit_code == 0
    assert "# skipped Thing w, spec.a: it looks like a Pod template and is none: " in result.stdout
    assert "# Thing w, spec.b, namespace default" in result.stdout


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (json.loads('{"a":' * 40 + "1" + "}" * 40), f"more than {DEEPEST_TEMPLATE} levels deep"),
        ([{}] * (MOST_SEARCHED + 1), f"more than {MOST_SEARCHED} values"),
        ([yaml.safe_load(POD)] * (MOST_TEMPLATES + 1), f"more than {MOST_TEMPLATES} Pod templates"),
    ],
)
def test_an_object_that_is_too_large_to_search_is_skipped_with_the_reason(value: object, why: str) -> None:
    result = said(json.dumps({"apiVersion": "x/v1", "kind": "Huge", "metadata": {"name": "h"}, "spec": value}))
    assert result.exit_code == 1
    assert why in result.stdout
    assert len(result.stdout) < 1000


def test_many_skipped_objects_are_named_up_to_a_bound() -> None:
    text = "".join(f"kind: ConfigMap\nmetadata: {{name: c{n}}}\n---\n" for n in range(50))
    result = said(text + workload("Deployment", f"{{template: {POD}}}"))
    assert result.stdout.count("# skipped ConfigMap") == 20
    assert "# skipped 30 more objects" in result.stdout


def test_a_parallel_job_that_is_no_gang_gets_advice_how_to_become_one() -> None:
    job = workload("Job", f"{{parallelism: 4, template: {POD}}}", "batch/v1")
    assert "annotation slurm-extender.io/gang (docs/gangs.md)" in said(job).stdout
    assert (
        "annotation slurm-extender.io/gang"
        not in said(workload("Deployment", f"{{replicas: 4, template: {POD}}}")).stdout
    )


def test_the_line_for_sbatch_has_every_option_of_the_request() -> None:
    request = JobRequest(
        "ml/train run",
        64,
        512 * 1024,
        2,
        {"gpu:h100": 8},
        partition="gpu",
        account="a",
        qos="q",
        time_limit_minutes=60,
        exclusive=Exclusive.NONE,
        run_as=RunAs(7, 8),
        required_nodes=("n1", "n2"),
        excluded_nodes=("n3",),
        nice=5,
        begin="now+1hour",
        deadline=100,
        comment="it's",
        constraints="a&b",
        max_nodes=4,
    )
    assert sbatch_line(request) == (
        "sbatch '--job-name=ml/train run' --nodes=2-4 --ntasks=2 --cpus-per-task=64 --mem=512G --gres=gpu:h100:8 "
        "--account=a --partition=gpu --qos=q '--comment=it'\"'\"'s' '--constraint=a&b' --time=60 --nice=5 "
        "--nodelist=n1,n2 --exclude=n3 --exclusive --uid=7 --gid=8 --begin=now+1hour --deadline=uts100"
    )


def test_each_field_of_a_request_but_the_mode_changes_the_line_for_sbatch() -> None:
    not_written = {"mode", "time_limit_least", "time_limit_by_site", "restart"}
    beside: dict[str, dict[str, Any]] = {"switches_wait_s": {"switches": 1}, "layout": {"members": 3}}
    for one in dataclasses.fields(JobRequest):
        value: Any = {
            "gres": {"gpu": 1},
            "tres_per_node": "gres/gpu:1",
            "excluded_nodes": ("n",),
            "required_nodes": ("n",),
            "exclusive": Exclusive.USER,
            "run_as": RunAs(1, 1),
            "on_node_failure": OnNodeFailure.KEEP,
            "layout": GangLayout.PACK,
        }.get(one.name, 77 if "int" in str(one.type) else "text")
        changes: dict[str, Any] = {one.name: value}
        plain = dataclasses.replace(JobRequest("t", 1, 1000), **beside.get(one.name, {}))
        changed = sbatch_line(dataclasses.replace(plain, **changes))
        assert (changed == sbatch_line(plain)) == (one.name in not_written), one.name


def test_a_value_with_colons_is_text_as_for_kubernetes() -> None:
    pod = POD.replace("{spec", "{metadata: {annotations: {slurm-extender.io/time-limit: 8:00:00}}, spec")
    assert "--time=480\n" in said(workload("Deployment", f"{{template: {pod}}}")).stdout


def test_a_whole_node_is_all_memory_without_other_jobs() -> None:
    line = sbatch_line(JobRequest("x", 1, 0, exclusive=Exclusive.USER, whole_node=True))
    assert line == "sbatch --job-name=x --nodes=1 --ntasks=1 --cpus-per-task=1 --mem=0M --exclusive"
