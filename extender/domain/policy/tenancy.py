"""The policy of a site for its Pods: which rule speaks of one, whose it is, and what its PriorityClass stands for.

The first rule that matches a Pod is the only one that does. What nobody says of Namespaces' labels is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from extender.domain.jobs.job import Mode
from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.selectors import Selector, fits
from extender.domain.translation.settings import ACCOUNT, GROUP_ID, NICE, PRIORITY, QOS, USER_ID
from extender.domain.views import PodView

DEFAULT_SERVICE_ACCOUNT = "default"
"""Of a Pod that names none (kube-apiserver's admission `serviceaccount`); only manifests show such Pods."""

ANY = "*"

NAMESPACE, SERVICE_ACCOUNT = "{namespace}", "{serviceAccount}"
"""Stand for the Pod's in what an owner is called."""


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers; `None` is no bound."""

    at_least: int | None = None
    at_most: int | None = None

    def holds(self, value: int) -> bool:
        """Whether it is within the bounds."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    @property
    def text(self) -> str:
        """For people."""
        bounds = [f"at least {self.at_least}"] if self.at_least is not None else []
        bounds += [f"at most {self.at_most}"] if self.at_most is not None else []
        return " and ".join(bounds) or "any number"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a Pod may ask for. `None`: the rule says nothing of it; an empty list: nothing may be asked.

    Of names each `*` stands for any characters, and "" for leaving it to Slurm. Users and groups are names or numbers,
    and a lone `*` is anybody.
    """

    account: tuple[str, ...] | None = None
    partition: tuple[str, ...] | None = None
    qos: tuple[str, ...] | None = None
    reservation: tuple[str, ...] | None = None
    user_id: tuple[str, ...] | None = None
    group_id: tuple[str, ...] | None = None
    priority: Range | None = None
    nice: Range | None = None
    time_limit_minutes: Range | None = None
    exclusive: tuple[str, ...] | None = None
    """Words of the setting `exclusive`; `false` stands for leaving it to the partition."""

    mode: tuple[Mode, ...] | None = None


@dataclass(frozen=True, slots=True)
class PodMatch:
    """Which Pods are meant: those of which everything that is said here holds. `None`: any."""

    namespaces: tuple[str, ...] | None = None
    namespace_selector: Selector | None = None
    pod_selector: Selector | None = None
    service_accounts: tuple[str, ...] | None = None

    def holds(self, pod: PodView, namespace_labels: Mapping[str, str]) -> bool:
        """Whether this Pod is meant."""
        if self.namespaces is not None and not fits(pod.namespace, self.namespaces):
            return False
        if self.service_accounts is not None and not fits(account_of(pod), self.service_accounts):
            return False
        if self.pod_selector is not None and not self.pod_selector.selects(pod.labels):
            return False
        return self.namespace_selector is None or self.namespace_selector.selects(namespace_labels)


@dataclass(frozen=True, slots=True)
class TenancyRule:
    """What holds of the Pods that it matches. `name` is what their authors are told."""

    name: str
    match: PodMatch = PodMatch()
    defaults: JobDefaults = field(default_factory=JobDefaults)
    allowed: Allowed = Allowed()
    start_limit_s: float | None = None
    """How long a Pod may hold its node before it starts; 0: for ever. `None`: the rule says nothing of it."""


@dataclass(frozen=True, slots=True)
class JobOwner:
    """Whose jobs those of the matching Pods are: fairshare and accounting see that user and account."""

    match: PodMatch = PodMatch()
    user: str = ""
    group: str = ""
    account: str = ""

    def defaults(self, pod: PodView) -> JobDefaults:
        """The same for one Pod."""
        return (
            JobDefaults()
            .having(USER_ID, _filled(self.user, pod))
            .having(GROUP_ID, self.group)
            .having(ACCOUNT, _filled(self.account, pod))
        )

    @property
    def named_after_pod(self) -> bool:
        """Its user is called as the Pod's namespace or ServiceAccount is."""
        return NAMESPACE in self.user or SERVICE_ACCOUNT in self.user


@dataclass(frozen=True, slots=True)
class ClassValues:
    """What a PriorityClass of Kubernetes stands for in Slurm."""

    priority: int | None = None
    nice: int | None = None
    qos: str = ""

    @property
    def defaults(self) -> JobDefaults:
        """The same as defaults of a job."""
        return JobDefaults().having(PRIORITY, self.priority).having(NICE, self.nice).having(QOS, self.qos)


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """The whole policy. The empty one, in force where a site has no policy file, says nothing of any Pod."""

    rules: tuple[TenancyRule, ...] = ()
    owners: tuple[JobOwner, ...] = ()
    classes: Mapping[str, ClassValues] = field(default_factory=dict)

    def rule_for(self, pod: PodView, namespace_labels: Mapping[str, str]) -> TenancyRule | None:
        """The first rule that matches."""
        return next((rule for rule in self.rules if rule.match.holds(pod, namespace_labels)), None)

    def owner_for(self, pod: PodView, namespace_labels: Mapping[str, str]) -> JobOwner | None:
        """The first owner that matches."""
        return next((owner for owner in self.owners if owner.match.holds(pod, namespace_labels)), None)

    def class_of(self, pod: PodView) -> ClassValues:
        """What the Pod's PriorityClass stands for; nothing where it has none or the map does not name it."""
        return self.classes.get(pod.priority_class, ClassValues())

    @property
    def asks_of_namespaces(self) -> bool:
        """Nothing can be said of a Pod before the labels of its Namespace are known."""
        return any(match.namespace_selector is not None for match in self._matches())

    def _matches(self) -> Iterator[PodMatch]:
        yield from (rule.match for rule in self.rules)
        yield from (owner.match for owner in self.owners)


def account_of(pod: PodView) -> str:
    """The Pod's ServiceAccount."""
    return pod.service_account or DEFAULT_SERVICE_ACCOUNT


def _filled(text: str, pod: PodView) -> str:
    return text.replace(NAMESPACE, pod.namespace).replace(SERVICE_ACCOUNT, account_of(pod))
