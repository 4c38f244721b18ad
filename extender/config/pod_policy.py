"""The policy file: its model. It is a document of its own, since it is read again while the process runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from extender.config.jobs import Defaults, Person, Word
from extender.config.values import Duration, Group, LabelSelector, Text, of_form
from extender.domain.jobs.job import Mode
from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.tenancy import ANY
from extender.domain.translation import forms


def _person_or_anybody(value: str) -> str:
    if value != ANY:
        try:
            forms.PERSON.read(value)
        except ValueError as error:
            raise ValueError(f"must be {forms.PERSON.allowed}, or * for all") from error
    return value


def _sharing_word(value: Any) -> Any:
    """`true` and `false` without quotes are no text in YAML."""
    text = str(value).lower() if isinstance(value, bool) else value
    try:
        return str(forms.SHARING.read(text))
    except (ValueError, AttributeError) as error:
        raise ValueError(f"must be {forms.SHARING.allowed}") from error


Pattern = Text
Somebody = Annotated[str, AfterValidator(_person_or_anybody)]
Sharing = Annotated[str, BeforeValidator(_sharing_word)]


class MatchSettings(Group):
    """Selects the Pods that meet all conditions that are given. None given: all Pods."""

    namespaces: tuple[Pattern, ...] | None = Field(
        None, description="Names of namespaces; each `*` stands for any characters."
    )
    namespace_selector: LabelSelector | None = Field(None, description="Labels of the Namespace.")
    pod_selector: LabelSelector | None = Field(
        None,
        description="Labels of the Pod. Its author writes them: grant only permissions by them that all authors "
        "in the namespace may have.",
    )
    service_accounts: tuple[Pattern, ...] | None = Field(
        None,
        description="Names of ServiceAccounts; each `*` stands for any characters. A user who may create Pods in a "
        "namespace may use any of its ServiceAccounts.",
    )


class NumberBounds(Group):
    """Bounds of a number; what is not given does not bound it."""

    at_least: int | None = Field(None, description="Smallest number that is allowed.")
    at_most: int | None = Field(None, description="Largest number that is allowed.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"atLeast is {self.at_least} and atMost {self.at_most}: it must be at most that")
        return self


_LEFT = "`*` stands for any characters, an empty text for leaving it to Slurm."


class Allow(Group):
    """Values that Pods may ask for. Values that are not given here are not restricted, except users, groups and
    priority: for these `jobs.allow` of the configuration decides, which is empty by default. An empty list allows none.
    """

    account: tuple[str, ...] | None = Field(None, description=f"Accounts. {_LEFT}")
    partition: tuple[str, ...] | None = Field(None, description=f"Partitions. {_LEFT}")
    qos: tuple[str, ...] | None = Field(None, description=f"QOS. {_LEFT}")
    reservation: tuple[str, ...] | None = Field(
        None, description="Reservations; `*` stands for any characters. None needs no permission."
    )
    user_id: tuple[Somebody, ...] | None = Field(
        None,
        description="Users, by a name from `slurm.users` or as quoted number, each with its own group, and "
        "with others where `groupId` allows them; `*` allows all, root too.",
    )
    group_id: tuple[Somebody, ...] | None = Field(
        None, description="Groups, by a name from `slurm.groups` or as quoted number; `*` is any."
    )
    priority: NumberBounds | None = Field(
        None, description="Priorities that may be set. A priority that is set stands still; 0 holds the job."
    )
    nice: NumberBounds | None = Field(None, description="Nice values. Those below 0 raise the priority.")
    time_limit_minutes: NumberBounds | None = Field(
        None, description="Time limits in minutes. A Pod that says none gets `atMost` where no default is given."
    )
    exclusive: tuple[Sharing, ...] | None = Field(
        None, description="Words of `exclusive`; `false` is to leave it to the partition."
    )
    mode: tuple[Mode, ...] | None = Field(None, description="Modes; `auto` is that of a Pod that says none.")
    largest_gang: int | None = Field(
        None,
        ge=1,
        le=forms.LARGEST_GANG,
        description="Most members of a gang (docs/gangs.md); 1 allows no gang. `gangs.largest` of the configuration "
        "bounds every gang.",
    )


class PolicyRule(Group):
    """A rule. The first one that matches a Pod is the only one that does."""

    name: Annotated[str, of_form(forms.LINE), Field(min_length=1, max_length=63)] = Field(
        description="Name that messages to the authors of refused Pods give."
    )
    match: MatchSettings = Field(MatchSettings(), description="Which Pods it speaks of.")
    defaults: Defaults = Field(
        JobDefaults(),
        description="What a Pod gets where it says nothing; what is not said here comes from `jobs` of the "
        "configuration. A default needs no permission.",
    )
    allow: Allow = Field(Allow(), description="What a Pod may ask for.")
    startup_deadline: Duration | None = Field(
        None,
        ge=0,
        description="How long a Pod may hold its node before all its containers start, in place of "
        "`startupDeadline.duration` of the configuration; 0: without a limit.",
    )


class PolicyOwner(Group):
    """Owner of the jobs of the matching Pods, so that fairshare and accounting see the real owner. The first one
    that matches counts, and goes before the defaults of the rule.
    """

    match: MatchSettings = Field(MatchSettings(), description="Which Pods it speaks of.")
    user: Text | None = Field(
        None,
        description="User, by a name from `slurm.users` or as quoted number. `{namespace}` and `{serviceAccount}` "
        "stand for the Pod's: then the result must be a name, and not that of an administrator of Slurm.",
    )
    group: Person | None = Field(None, description="Group; not given: the one that comes with the user.")
    account: Word | None = Field(
        None, description="Account that is charged. `{namespace}` and `{serviceAccount}` stand for the Pod's."
    )

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if self.user is None and self.account is None:
            raise ValueError("neither user nor account is given: at least one of them must be")
        if self.group is not None and self.user is None:
            raise ValueError("group is given without user: they must be given together")
        if self.user is not None and "{" not in self.user:
            _person_or_anybody(self.user)
        return self


class PriorityClassValues(Group):
    """Values of a PriorityClass in Slurm. An annotation of the Pod goes before them."""

    priority: int | None = Field(None, ge=0, le=forms.UINT32_LARGEST, description="Priority; 0 holds the job.")
    nice: int | None = Field(
        None, ge=-forms.NICE_LARGEST, le=forms.NICE_LARGEST, description="Taken off the computed priority."
    )
    qos: Word | None = Field(None, description="Quality of service.")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.priority is None and self.nice is None and self.qos is None:
            raise ValueError("nothing is given: one of priority, nice and qos must be")
        return self


class PodPolicyDocument(Group):
    """Policy of the extender."""

    api_version: Literal["slurm-extender.io/v1alpha1"] = Field(description="Version of this form.")
    kind: Literal["PodPolicy"] = Field(description="What the document is.")
    rules: tuple[PolicyRule, ...] = Field((), description="Rules, in order.")
    owners: tuple[PolicyOwner, ...] = Field((), description="Owners, in order.")
    priority_classes: dict[Text, PriorityClassValues] = Field(
        {},
        description="PriorityClasses by name, and what they stand for in Slurm. Where a rule allows a list of QOS, or "
        "bounds of priority or nice, it holds of these too; otherwise they need no permission.",
    )

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        names = [rule.name for rule in self.rules]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"rules names {', '.join(twice)} more than once: each rule must have a name of its own")
        return self
