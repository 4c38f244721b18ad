"""The policy of a site for its Pods: the rule of a Pod, the owner of its job, and the meaning of its PriorityClass.

Only the first rule that matches a Pod applies to it. Unknown labels of a Namespace are not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from extender.domain.jobs.job import Mode
from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.selectors import Selector, fits
from extender.domain.translation.annotation_table import ACCOUNT, GROUP_ID, NICE, PRIORITY, QOS, USER_ID
from extender.domain.views import PodView

DEFAULT_SERVICE_ACCOUNT = "default"
"""ServiceAccount of a Pod that names none (admission plug-in `serviceaccount`); only manifests show such Pods."""

ANY = "*"

NAMESPACE, SERVICE_ACCOUNT = "{namespace}", "{serviceAccount}"
"""Placeholders for the names of the Pod's namespace and ServiceAccount in the name of an owner."""


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers; `None` is no bound."""

    at_least: int | None = None
    at_most: int | None = None

    def holds(self, value: int) -> bool:
        """Return whether `value` is within the bounds."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    @property
    def text(self) -> str:
        """Return the bounds in words."""
        bounds = [f"at least {self.at_least}"] if self.at_least is not None else []
        bounds += [f"at most {self.at_most}"] if self.at_most is not None else []
        return " and ".join(bounds) or "any number"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Values that a Pod may ask for. `None`: the rule does not decide; an empty list: no value is allowed.

    In names each `*` matches any characters, and "" for leaving the choice to Slurm. Users and groups are names or
    numbers, and a lone `*` allows all of them.
    """

    account: tuple[str, ...] | None = None
    partition: tuple[str, ...] | None = None
    qos: tuple[str, ...] | None = None
    reservation: tuple[str, ...] | None = None
    user_id: tuple[str, ...] | None = None
    group_id: tuple[str, ...] | None = None
    priority: Range | None = None
    nice: Range | None = None
    time_limit: Range | None = None
    """Minutes."""

    exclusive: tuple[str, ...] | None = None
    """Words of the setting `exclusive`; `false` leaves the choice to the partition."""

    mode: tuple[Mode, ...] | None = None
    largest_gang: int | None = None
    """Members of the largest gang; 1: no gang is allowed."""


@dataclass(frozen=True, slots=True)
class PodMatch:
    """Selects the Pods that meet all of these conditions. `None`: any."""

    namespaces: tuple[str, ...] | None = None
    namespace_selector: Selector | None = None
    pod_selector: Selector | None = None
    service_accounts: tuple[str, ...] | None = None

    def holds(self, pod: PodView, namespace_labels: Mapping[str, str]) -> bool:
        """Return whether the Pod meets all conditions."""
        if self.namespaces is not None and not fits(pod.namespace, self.namespaces):
            return False
        if self.service_accounts is not None and not fits(account_of(pod), self.service_accounts):
            return False
        if self.pod_selector is not None and not self.pod_selector.selects(pod.labels):
            return False
        return self.namespace_selector is None or self.namespace_selector.selects(namespace_labels)


@dataclass(frozen=True, slots=True)
class TenancyRule:
    """One rule of the policy file. Messages to the authors of refused Pods give its `name`."""

    name: str
    match: PodMatch = PodMatch()
    defaults: JobDefaults = field(default_factory=JobDefaults)
    allowed: Allowed = Allowed()
    startup_deadline_s: float | None = None
    """Seconds that a Pod may hold its node before it starts; 0: no limit. `None`: the rule does not decide."""


@dataclass(frozen=True, slots=True)
class JobOwner:
    """User, group and account of the jobs of matching Pods, for fairshare and accounting."""

    match: PodMatch = PodMatch()
    user: str | None = None
    group: str | None = None
    account: str | None = None

    def defaults(self, pod: PodView) -> JobDefaults:
        """Return them for one Pod, as defaults of its job."""
        return (
            JobDefaults()
            .having(USER_ID, _filled(self.user, pod))
            .having(GROUP_ID, self.group)
            .having(ACCOUNT, _filled(self.account, pod))
        )

    @property
    def named_after_pod(self) -> bool:
        """Return whether the name of the user is made of the Pod's namespace or ServiceAccount."""
        return self.user is not None and (NAMESPACE in self.user or SERVICE_ACCOUNT in self.user)


@dataclass(frozen=True, slots=True)
class ClassValues:
    """Priority, nice and QOS in Slurm of a PriorityClass of Kubernetes."""

    priority: int | None = None
    nice: int | None = None
    qos: str | None = None

    @property
    def defaults(self) -> JobDefaults:
        """Return these values as defaults of a job."""
        return JobDefaults().having(PRIORITY, self.priority).having(NICE, self.nice).having(QOS, self.qos)


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """The whole policy. Where a site has no policy file it is empty, and decides nothing."""

    rules: tuple[TenancyRule, ...] = ()
    owners: tuple[JobOwner, ...] = ()
    classes: Mapping[str, ClassValues] = field(default_factory=dict)

    def rule_for(self, pod: PodView, namespace_labels: Mapping[str, str]) -> TenancyRule | None:
        """Return the first rule that matches."""
        return next((rule for rule in self.rules if rule.match.holds(pod, namespace_labels)), None)

    def owner_for(self, pod: PodView, namespace_labels: Mapping[str, str]) -> JobOwner | None:
        """Return the first owner that matches."""
        return next((owner for owner in self.owners if owner.match.holds(pod, namespace_labels)), None)

    def class_of(self, pod: PodView) -> ClassValues:
        """Return the values of the Pod's PriorityClass; empty where it has none or the policy does not list it."""
        return self.classes.get(pod.priority_class, ClassValues())

    @property
    def needs_namespace_labels(self) -> bool:
        """Return whether the policy needs the labels of a Pod's Namespace before it can decide."""
        return any(match.namespace_selector is not None for match in self._matches())

    def _matches(self) -> Iterator[PodMatch]:
        yield from (rule.match for rule in self.rules)
        yield from (owner.match for owner in self.owners)


def account_of(pod: PodView) -> str:
    """Return the name of the Pod's ServiceAccount."""
    return pod.service_account or DEFAULT_SERVICE_ACCOUNT


def _filled(text: str | None, pod: PodView) -> str | None:
    return text and text.replace(NAMESPACE, pod.namespace).replace(SERVICE_ACCOUNT, account_of(pod))
