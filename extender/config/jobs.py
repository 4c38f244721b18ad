"""What a site decides about jobs: defaults, permissions, names of its hardware."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from extender.config.values import Group, Text, of_form
from extender.domain.jobs.job import Exclusive, Mode
from extender.domain.policy.site import (
    DEFAULT_GPU_TYPE_LABELS,
    DEFAULT_GRES_RULES,
    GresRule,
    TimeoutUnit,
    UnderAccounting,
)
from extender.domain.translation import forms, settings


class RestrictedKey(StrEnum):
    """Settings that a Pod may carry only where the site allows it."""

    USER_ID = "user-id"
    GROUP_ID = "group-id"
    PRIORITY = "priority"


Line = Annotated[str, of_form(forms.LINE)]
Word = Annotated[str, of_form(forms.WORD)]
Words = Annotated[str, of_form(forms.WORDS)]
Person = Annotated[str, of_form(forms.PERSON)]


class Defaults(Group):
    """What a job gets where its Pod says nothing; the meanings and forms are those of the annotations."""

    mode: Mode | None = Field(
        None,
        description="How placeholders exist in Slurm: `batch` a script, `allocation` no process, `external` for nodes "
        "without slurmd, `auto` (also when not given) decided for each job from its nodes.",
    )
    account: Word | None = Field(None, description="Account that is charged.")
    partition: Words | None = Field(None, description="Partition, or several separated by commas.")
    qos: Word | None = Field(None, description="Quality of service.")
    reservation: Words | None = Field(None, description="Reservation to run in.")
    wckey: Word | None = Field(None, description="Workload characterisation key.")
    comment: Line | None = Field(None, description="Comment; not given: which Pod it is.")
    constraints: Line | None = Field(None, description="Features that the node must have.")
    prefer: Line | None = Field(None, description="Features that the node should have.")
    licenses: Line | None = Field(None, description="Licences that the job holds.")
    mcs_label: Word | None = Field(None, description="Label of Slurm's multi-category security.")
    exclusive: Exclusive | None = Field(None, description="Who may share the node; `none` is nobody.")
    user_id: Person | None = Field(
        None,
        description="User that jobs run as, by a name from `slurm.users` or as quoted number. Not given: the token's "
        "owner. SUNK's is '0'.",
    )
    group_id: Person | None = Field(
        None,
        description="Group that jobs run as, by a name from `slurm.groups` or as quoted number. Not given: the "
        "primary group of a userId that is a name, the same number as one that is a number.",
    )
    working_dir: Annotated[str, of_form(forms.PATH)] | None = Field(None, description="Working directory.")
    time_limit_minutes: int | None = Field(None, ge=1, le=forms.INT32_LARGEST, description="Time limit, in minutes.")
    priority: int | None = Field(None, ge=0, le=forms.UINT32_LARGEST, description="Priority; 0 holds the job.")
    nice: int | None = Field(
        None, ge=-forms.NICE_LARGEST, le=forms.NICE_LARGEST, description="Taken off the computed priority."
    )


class GresMapping(Group):
    """One line of the map from extended resources to GRES."""

    resource: Text = Field(description="Extended resource, `nvidia.com/gpu`. Each `*` stands for any characters.")
    gres: Text = Field(
        description="GRES name, with `:type` if wanted; `license/NAME` for a licence of Slurm; `none` for what Slurm "
        "does not know of (the node is looked at for it all the same). `{1}` is what the first `*` stood for."
    )
    each: int = Field(1, ge=1, le=forms.INT32_LARGEST, description="How many of that one of the resource is.")

    def rule(self) -> GresRule:
        """The same for the translation."""
        return GresRule(self.resource, self.gres, self.each)


def _rules(lines: tuple[GresMapping, ...]) -> tuple[GresMapping, ...]:
    rules = [line.rule() for line in lines]
    for number, later in enumerate(rules):
        before = next((one for one in rules[:number] if one.hides(later)), None)
        if before is not None:
            raise ValueError(
                f"GRES map: {later.resource!r} is never reached, {before.resource!r} stands before it and matches all "
                "that it does; the narrower line goes first"
            )
    return lines


def _types(types: dict[str, str]) -> dict[str, str]:
    for label, name in types.items():
        try:
            settings.GPU_TYPE.form.read(name)
        except ValueError as error:
            raise ValueError(
                f"{label}: {name!r} is no GRES type: it must be {settings.GPU_TYPE.form.allowed}"
            ) from error
    return types


class JobSettings(Group):
    """The translation of Pods into jobs."""

    defaults: Defaults = Field(Defaults(), description="Defaults of every job.")
    namespace_defaults: dict[Text, Defaults] = Field(
        {}, description="Defaults by namespace; what they leave unsaid comes from `defaults`."
    )
    allow: frozenset[RestrictedKey] = Field(
        frozenset(),
        description="Settings that authors of Pods may use although Slurm obeys them only because the token is an "
        "administrator's. `user-id` also gives the group that comes with the user, `priority` a `nice` below 0.",
    )
    policy_file: Text | None = Field(
        None,
        description="File with the policy for Pods (docs/policy.md): rules, owners, PriorityClasses. It is read again "
        "when it changes. Not given: no Pod is subject to more than stands here.",
    )
    gres: Annotated[tuple[GresMapping, ...], AfterValidator(_rules)] = Field(
        tuple(GresMapping(resource=rule.resource, gres=rule.gres, each=rule.each) for rule in DEFAULT_GRES_RULES),
        description="Extended resources of Kubernetes and the GRES they are in Slurm; the first line that matches "
        "counts. A list given here replaces the default.",
    )
    gpu_type_labels: tuple[Text, ...] = Field(
        DEFAULT_GPU_TYPE_LABELS, description="Node labels whose value, required by a Pod, says which GPU type it wants."
    )
    gpu_types: Annotated[dict[Text, Text], AfterValidator(_types)] = Field(
        {}, description="Value of such a label, and Slurm's type of GRES `gpu`: `NVIDIA_L4: l4`."
    )
    external_anywhere: bool = Field(
        False,
        description="Let external jobs use nodes with slurmd too. They have no Epilog there: the node "
        "is held by a drain and by PrologSlurmctld alone while a Pod ends after its job (docs/fences.md).",
    )
    sunk_timeout_unit: TimeoutUnit = Field(
        TimeoutUnit.MINUTES, description="What `sunk.coreweave.com/timeout` counts; seconds are rounded up to minutes."
    )
    refuse_pinned_cpus: bool = Field(
        False,
        description="Refuse Pods of QoS class Guaranteed that ask for whole CPUs: a kubelet with the static CPU policy "
        "takes those away from everything else on the node, the slurmd in a Pod and its jobs too (docs/resources.md).",
    )
    partitions: tuple[Text, ...] = Field(
        (),
        description="Partitions that any Pod may name although Slurm does not let everybody use them (AllowGroups, "
        "AllowAccounts, AllowQos, or a PriorityTier above the default partition's); `*` stands for any characters. "
        "Slurm does not hold the extender's own token to these limits. A rule of the policy decides instead.",
    )
    accounts: tuple[Text, ...] = Field(
        (), description="Accounts that any Pod may name, where no rule of the policy says it; `*` as above."
    )
    qos: tuple[Text, ...] = Field((), description="The same for QOS.")
    reservations: tuple[Text, ...] = Field((), description="The same for reservations.")
    mcs_labels: tuple[Text, ...] = Field((), description="The same for labels of multi-category security.")
    under_accounting: UnderAccounting = Field(
        UnderAccounting.REFUSE,
        description="A Pod whose annotations ask Slurm for fewer CPUs, less memory or fewer devices than its resources "
        "take of the node: refuse it, or warn its author by an Event and let Slurm count less than is used.",
    )
    strict_grace: bool = Field(
        False,
        description="SUNK's rule: refuse Pods whose grace period is not below slurm.killWait less 5 s. Otherwise a "
        "longer grace is allowed, and announced.",
    )
