"""Decisions of a site about jobs: defaults, permissions, names of its hardware."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
    create_model,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from extender.config.values import Duration, Group, Text, TimeLimit, of_form
from extender.domain.gangs.context import LARGEST, JobGangs
from extender.domain.gangs.pod_groups import PodGroupApi
from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.site import (
    DEFAULT_GPU_TYPE_LABELS,
    DEFAULT_GRES_RULES,
    GresRule,
    MissingRequests,
    MissingSize,
    TimeoutUnit,
    UnderAccounting,
    UnknownResources,
)
from extender.domain.translation import annotation_table as table
from extender.domain.translation import forms
from extender.domain.translation.annotation_table import WITH_SITE_DEFAULT
from extender.domain.translation.forms import Form


class RestrictedKey(StrEnum):
    """Settings that a Pod may carry only where the site allows it."""

    USER_ID = "user-id"
    GROUP_ID = "group-id"
    PRIORITY = "priority"


Word = Annotated[str, of_form(forms.WORD)]
Person = Annotated[str, of_form(forms.PERSON)]


def _type_of(form: Form[Any]) -> Any:
    """Return the type that a key of this form has in the document."""
    if form is forms.MINUTES:
        return TimeLimit
    if form.bounds is not None:
        least, most = form.bounds
        return Annotated[int, Field(ge=least, le=most)]
    return form.words or Annotated[str, of_form(form)]


_KEYS: dict[str, Any] = {
    setting.default_key: (_type_of(setting.form) | None, Field(None, description=setting.site_default))
    for setting in WITH_SITE_DEFAULT
}
_DEFAULTS_MODEL = create_model(
    "Defaults",
    __base__=Group,
    __doc__="Settings of a job that its Pod does not set, with the meanings and forms of the annotations.",
    **_KEYS,
)


def _read_defaults(given: BaseModel) -> JobDefaults:
    """Return the values of the settings, read as an annotation is where the document holds text."""
    defaults = JobDefaults()
    for setting in WITH_SITE_DEFAULT:
        value = getattr(given, setting.default_key)
        text = isinstance(value, str) and setting.form.words is None
        defaults = defaults.having(setting, setting.form.read(value) if text and value else value)
    return defaults


def _write_defaults(defaults: JobDefaults) -> dict[str, Any]:
    return {to_camel(setting.default_key): defaults.get(setting) for setting in WITH_SITE_DEFAULT}


class _DefaultsInDocument:
    """The form of `JobDefaults` in a document: a group with one key for each setting that may have a default."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            _read_defaults,
            handler.generate_schema(_DEFAULTS_MODEL),
            serialization=core_schema.plain_serializer_function_ser_schema(_write_defaults),
        )


Defaults = Annotated[JobDefaults, _DefaultsInDocument]
"""Values that a job gets where its Pod gives none."""


def _read_missing(value: Any) -> MissingRequests | MissingSize:
    if isinstance(value, MissingSize):
        return value
    if isinstance(value, str) and value in set(MissingRequests):
        return MissingRequests(value)
    if not isinstance(value, dict) or set(value) != {"cpu", "memory"}:
        raise ValueError("is not allowed")
    read: dict[str, int] = {}
    for key, form in (("cpu", forms.CPUS), ("memory", forms.MEBIBYTES)):
        try:
            read[key] = form.read(str(value[key]))
        except ValueError as error:
            raise ValueError(f"{key} must be {form.allowed}") from error
    return MissingSize(read["cpu"], read["memory"])


def _write_missing(value: MissingRequests | MissingSize) -> Any:
    return {"cpu": value.cpus, "memory": f"{value.memory_mb}Mi"} if isinstance(value, MissingSize) else str(value)


_AMOUNT = {"type": ["string", "number"]}

MissingRequestsInDocument = Annotated[
    MissingRequests | MissingSize,
    BeforeValidator(_read_missing),
    PlainSerializer(_write_missing),
    WithJsonSchema(
        {
            "format": "missing-requests",
            "oneOf": [
                {"type": "string", "enum": [str(one) for one in MissingRequests]},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["cpu", "memory"],
                    "properties": {"cpu": _AMOUNT, "memory": _AMOUNT},
                },
            ],
        }
    ),
]
"""A word, or the amounts."""


class GresMapping(Group):
    """One line of the map from extended resources to GRES."""

    resource: Text = Field(description="Extended resource, `nvidia.com/gpu`. Each `*` matches any characters.")
    gres: Text = Field(
        description="GRES name, with an optional `:type`; `license/NAME` for a licence of Slurm; `none` for a "
        "resource without a GRES (the node must have enough of it anyway). `{1}` is the text that the first `*` "
        "matched."
    )
    multiplier: int = Field(
        1, ge=1, le=forms.INT32_LARGEST, description="Number of that GRES for one unit of the resource."
    )

    def rule(self) -> GresRule:
        """Return the same for the translation."""
        return GresRule(self.resource, self.gres, self.multiplier)


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
            table.GPU_TYPE.form.read(name)
        except ValueError as error:
            raise ValueError(f"{label}: {name!r} is no GRES type: it must be {table.GPU_TYPE.form.allowed}") from error
    return types


class JobSettings(Group):
    """The translation of Pods to jobs."""

    defaults: Defaults = Field(JobDefaults(), description="Defaults of every job.")
    namespace_defaults: dict[Text, Defaults] = Field(
        {}, description="Defaults by namespace; `defaults` has the others."
    )
    allow: frozenset[RestrictedKey] = Field(
        frozenset(),
        description="Settings that authors of Pods may use although Slurm obeys them only because the token is an "
        "administrator's. `user-id` also gives the group that comes with the user, `priority` a `nice` below 0.",
    )
    policy_file: Text | None = Field(
        None,
        description="File with the policy for Pods (docs/policy.md): rules, owners, PriorityClasses. It is read again "
        "when it changes. Unset: no Pod is subject to more than stands here.",
    )
    gres: Annotated[tuple[GresMapping, ...], AfterValidator(_rules)] = Field(
        tuple(GresMapping(resource=rule.resource, gres=rule.gres, multiplier=rule.each) for rule in DEFAULT_GRES_RULES),
        description="Extended resources of Kubernetes and the GRES they are in Slurm; the first line that matches "
        "counts. A list given here replaces the default.",
    )
    gpu_type_labels: tuple[Text, ...] = Field(
        DEFAULT_GPU_TYPE_LABELS, description="Node labels whose value, required by a Pod, states its GPU type."
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
        description="Refuse Pods of QoS class Guaranteed that request whole CPUs: a kubelet with the static CPU policy "
        "takes those away from everything else on the node, the slurmd in a Pod and its jobs too (docs/resources.md).",
    )
    partitions: tuple[Text, ...] = Field(
        (),
        description="Partitions that any Pod may name although Slurm restricts their use (AllowGroups, "
        "AllowAccounts, AllowQos, or a PriorityTier above the default partition's); `*` matches any characters. "
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
    unknown_resources: UnknownResources = Field(
        UnknownResources.ALLOW,
        description="A Pod that requests an extended resource which no line of `gres` names, such as `rdma/ib`: place "
        "it, let the kubelet grant the resource, and say by an Event that Slurm does not count it; or refuse the Pod.",
    )
    missing_requests: MissingRequestsInDocument = Field(
        MissingRequests.REFUSE,
        description="A Pod that requests no CPU or no memory: refuse it; give it a `whole-node` that its job shares "
        "with no other, where its author and the policy do not forbid that; or count these amounts for the missing "
        "ones, as `{cpu: 1, memory: 1Gi}`. The kubelet grants such a Pod no more than it requests in any case.",
    )
    strict_grace: bool = Field(
        False,
        description="SUNK's rule: refuse Pods whose grace period is not below slurm.killWait less 5 s. Otherwise a "
        "longer grace is allowed, and announced.",
    )


class UnfencedGangs(StrEnum):
    """Say what happens to a gang if too few nodes have a working fence."""

    REFUSE = "refuse"
    ALLOW = "allow"


class Gangs(Group):
    """Several Pods that get one placeholder job (docs/gangs.md)."""

    jobs: JobGangs = Field(
        JobGangs.ANNOTATED,
        description="Which parallel Jobs are gangs: `annotated` those with the annotation `slurm-extender.io/gang`, "
        '`indexed` also those with completion mode Indexed, `all` every one. The annotation `"false"` excludes a Job.',
    )
    largest: int = Field(
        LARGEST,
        ge=2,
        le=forms.LARGEST_GANG,
        description="Maximum number of members of a gang; a Pod that requests more is refused.",
    )
    pod_groups: frozenset[PodGroupApi] = Field(
        frozenset(),
        description="API groups whose PodGroups are read, and make the Pods that name them a gang. The extender needs "
        "the rights of components/pod-groups. Without an entry here no PodGroup is requested.",
    )
    unfenced: UnfencedGangs = Field(
        UnfencedGangs.REFUSE,
        description="Handling of nodes without a working fence (docs/fences.md). A job frees each of its "
        "nodes by itself, and its script holds the first one alone: `refuse` lets the gang wait until enough nodes "
        "have a fence, `allow` risks that Slurm starts the next job while a Pod of the gang still ends.",
    )
    complete_within: Duration = Field(
        300.0,
        gt=0,
        description="Time for which a gang may be incomplete before an Event on one of its Pods says what it lacks. "
        "The gang continues to wait.",
    )
    bind_within: Duration = Field(
        30.0,
        gt=0,
        description="Time for kube-scheduler to accept all members on their nodes, and 0.1 s more for each member. "
        "Then the job is released and submitted again without the node that was not accepted. While kube-scheduler "
        "tries other Pods of a long queue and has not reached a member, the time starts again, up to four times.",
    )
    replace_within: Duration = Field(
        60.0,
        ge=0,
        description="Time for which the slot of a failed or removed member is kept for its successor. Then its node "
        "is returned to Slurm, and the other members continue. A waiting job keeps its place in the queue for the "
        "same time when its gang loses a member.",
    )
    late_within: Duration = Field(
        600.0,
        gt=0,
        description="Time for which a slot waits for its first Pod before an Event reports it, if a controller "
        "creates later members only after earlier ones are Ready.",
    )
