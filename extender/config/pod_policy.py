"""The policy file: its model. It is a document of its own, since it is read again while the process runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from extender.config.domain_groups import InDocument
from extender.config.jobs import Defaults, Person, Word
from extender.config.selectors import LabelSelector
from extender.config.values import Duration, Group, Text, TimeLimit, of_form
from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.tenancy import ANY, Allowed, ClassValues, JobOwner, PodMatch, Range
from extender.domain.translation import forms


def _user_or_all(value: str) -> str:
    if value != ANY:
        try:
            forms.PERSON.read(value)
        except ValueError as error:
            raise ValueError(f"must be {forms.PERSON.allowed}, or * for all") from error
    return value


def _sharing_word(value: Any) -> Any:
    """Return `true` and `false` as text: YAML reads them without quotes as flags."""
    text = str(value).lower() if isinstance(value, bool) else value
    try:
        return str(forms.SHARING.read(text))
    except (ValueError, AttributeError) as error:
        raise ValueError(f"must be {forms.SHARING.allowed}") from error


Pattern = Text
UserOrAll = Annotated[str, AfterValidator(_user_or_all)]
Sharing = Annotated[str, BeforeValidator(_sharing_word)]


class _MatchSettings:
    """Selects the Pods that meet all configured conditions; without a condition, all Pods."""

    namespaces: tuple[Pattern, ...] | None = Field(description="Names of namespaces; each `*` matches any characters.")
    namespace_selector: LabelSelector | None = Field(description="Labels of the Namespace.")
    pod_selector: LabelSelector | None = Field(
        description="Labels of the Pod. Its author writes them, so grant by them only permissions for all authors of "
        "the namespace.",
    )
    service_accounts: tuple[Pattern, ...] | None = Field(
        description="Names of ServiceAccounts; each `*` matches any characters. Users with the right to create Pods in "
        "a namespace can use all of its ServiceAccounts.",
    )


MatchSettings = Annotated[PodMatch, InDocument(_MatchSettings)]


class _NumberBounds:
    """Bounds of a number; each is optional."""

    at_least = Field(description="Smallest allowed number.")
    at_most = Field(description="Largest allowed number.")


def _ordered(bounds: Range) -> Range:
    if bounds.at_least is not None and bounds.at_most is not None and bounds.at_least > bounds.at_most:
        raise ValueError(f"atLeast is {bounds.at_least} and atMost {bounds.at_most}: it must be at most that")
    return bounds


NumberBounds = Annotated[Range, InDocument(_NumberBounds), AfterValidator(_ordered)]


class _TimeLimitBounds:
    """Bounds of a time limit; each is optional."""

    at_least: TimeLimit | None = Field(description="Shortest allowed time limit.")
    at_most: TimeLimit | None = Field(description="Longest allowed time limit.")


TimeLimitBounds = Annotated[Range, InDocument(_TimeLimitBounds), AfterValidator(_ordered)]


_LEFT = "`*` matches any characters, an empty text a Pod that leaves the choice to Slurm."


class _Allow:
    """Values that Pods may set. Unset keys restrict nothing, except users, groups and priority: for these `jobs.allow`
    of the configuration applies, which is empty by default. An empty list allows no value.
    """

    account = Field(description=f"Accounts. {_LEFT}")
    partition = Field(description=f"Partitions. {_LEFT}")
    qos = Field(description=f"QOS. {_LEFT}")
    reservation = Field(
        description="Reservations; `*` matches any characters. A Pod without a reservation needs no permission."
    )
    user_id: tuple[UserOrAll, ...] | None = Field(
        description="Users: a name of `slurm.users` or a quoted number. Each may use its own group; `groupId` allows "
        "others. `*` allows all users, including root.",
    )
    group_id: tuple[UserOrAll, ...] | None = Field(
        description="Groups: a name of `slurm.groups` or a quoted number; `*` allows all groups."
    )
    priority: NumberBounds | None = Field(
        description="Priorities. A priority that is set does not change with age; 0 holds the job."
    )
    nice: NumberBounds | None = Field(description="Nice values. Those below 0 raise the priority.")
    time_limit: TimeLimitBounds | None = Field(
        description="Time limits. A Pod without a time limit gets the default, otherwise `atMost`."
    )
    exclusive: tuple[Sharing, ...] | None = Field(
        description="Words of `exclusive`; `false` leaves the choice to the partition."
    )
    mode = Field(description="Modes; a Pod without a mode has `auto`.")
    largest_gang = Field(
        ge=1,
        le=forms.LARGEST_GANG,
        description="Maximum number of members of a gang (docs/gangs.md); 1 allows no gang. `gangs.largest` of the "
        "configuration bounds every gang.",
    )


Allow = Annotated[Allowed, InDocument(_Allow)]


class PolicyRule(Group):
    """A rule. Only the first rule that matches a Pod applies."""

    name: Annotated[str, of_form(forms.LINE), Field(min_length=1, max_length=63)] = Field(
        description="Name of the rule in messages to authors of rejected Pods."
    )
    match: MatchSettings = Field(PodMatch(), description="The Pods to which it applies.")
    defaults: Defaults = Field(
        JobDefaults(),
        description="Values for settings that the Pod does not set. `jobs` of the configuration has the others.",
    )
    allow: Allow = Field(Allowed(), description="Values that a Pod may set.")
    startup_deadline: Duration | None = Field(
        None,
        ge=0,
        description="Time for which a Pod may hold its node before all its containers start. It replaces "
        "`startupDeadline.duration` of the configuration; 0 removes the limit.",
    )


class _PolicyOwner:
    """Owner of the jobs of the matching Pods, for fairshare and accounting. The first matching owner applies, and takes
    precedence over the defaults of the rule.
    """

    match: MatchSettings = Field(description="The Pods to which it applies.")
    user: Text | None = Field(
        description="User: a name of `slurm.users` or a quoted number. `{namespace}` and `{serviceAccount}` are "
        "replaced by those of the Pod. The result must then be a name, and not an administrator of Slurm.",
    )
    group: Person | None = Field(description="Group; the default is that of the user.")
    account: Word | None = Field(
        description="Account to charge. `{namespace}` and `{serviceAccount}` are replaced by those of the Pod."
    )


def _user_or_account(owner: JobOwner) -> JobOwner:
    if owner.user is None and owner.account is None:
        raise ValueError("neither user nor account is set: set at least one")
    if owner.group is not None and owner.user is None:
        raise ValueError("group is set without user: set both")
    if owner.user is not None and "{" not in owner.user:
        _user_or_all(owner.user)
    return owner


PolicyOwner = Annotated[JobOwner, InDocument(_PolicyOwner), AfterValidator(_user_or_account)]


class _PriorityClassValues:
    """Values of a PriorityClass in Slurm. An annotation of the Pod takes precedence."""

    priority = Field(ge=0, le=forms.UINT32_LARGEST, description="Priority; 0 holds the job.")
    nice = Field(ge=-forms.NICE_LARGEST, le=forms.NICE_LARGEST, description="Taken off the computed priority.")
    qos: Word | None = Field(description="Quality of service.")


def _one_value(values: ClassValues) -> ClassValues:
    if values == ClassValues():
        raise ValueError("nothing is set: set priority, nice or qos")
    return values


PriorityClassValues = Annotated[ClassValues, InDocument(_PriorityClassValues), AfterValidator(_one_value)]


class PodPolicyDocument(Group):
    """Policy of the extender."""

    api_version: Literal["slurm-extender.io/v1alpha1"] = Field(description="Version of the document.")
    kind: Literal["PodPolicy"] = Field(description="Kind of the document.")
    rules: tuple[PolicyRule, ...] = Field((), description="Rules, in order.")
    owners: tuple[PolicyOwner, ...] = Field((), description="Owners, in order.")
    priority_classes: dict[Text, PriorityClassValues] = Field(
        {},
        description="Values in Slurm of PriorityClasses, by name. A rule with a list of QOS, or with bounds of "
        "priority or nice, applies to these values too. Otherwise they need no permission.",
    )

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        names = [rule.name for rule in self.rules]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"rules names {', '.join(twice)} more than once: each rule must have a name of its own")
        return self
