"""Translate one Pod by the policy that is in force now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from extender.domain.gangs.context import ControllerView, job_deadline, root_annotations
from extender.domain.gangs.membership import Membership
from extender.domain.jobs.job import Charge
from extender.domain.policy.site import TranslationPolicy
from extender.domain.ports import Clock
from extender.domain.translation.allowance import too_many
from extender.domain.translation.translate import Translation, charged_to, names_partition, title_of, translate
from extender.domain.views import PodView

NO_POLICY = (
    "The site's policy has not been usable since the start of the extender; no job is submitted until it is fixed."
)

_NOTHING: Mapping[str, str] = {}


class Translations:
    """`policy` returns `None` while none is usable, `namespace_labels` for a Namespace that is not known (yet).

    `restricted` returns the partitions that are not open to all users, `None` before Slurm was read. `completed`
    returns a Pod with the GRES of its ResourceClaims, `None` while one of them does not exist.
    """

    def __init__(
        self,
        policy: Callable[[], TranslationPolicy | None],
        clock: Clock,
        namespace_labels: Callable[[str], Mapping[str, str] | None] = lambda _name: _NOTHING,
        restricted: Callable[[], Mapping[str, str] | None] = lambda: _NOTHING,
        completed: Callable[[PodView], PodView | None] = lambda pod: pod,
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._namespace_labels = namespace_labels
        self._restricted = restricted
        self._completed = completed

    @property
    def possible(self) -> bool:
        """Return whether there is a policy."""
        return self._policy() is not None

    def of(self, pod: PodView, controllers: Sequence[ControllerView]) -> Translation | None:
        """Return the job request, or why there is none; `None`: not enough is known to decide."""
        policy = self._policy()
        if policy is None:
            return None
        labels = self._namespace_labels(pod.namespace) if policy.pods.needs_namespace_labels else _NOTHING
        restricted, roots = self._restricted(), root_annotations(controllers)
        if labels is None or (restricted is None and names_partition(pod, roots, policy)):
            return None
        whole = self._completed(pod)
        if whole is None:
            return None
        deadline_s = job_deadline(controllers)
        wall = self._clock.wall()
        return translate(
            [whole], roots, policy, wall, labels, restricted=restricted or _NOTHING, job_deadline_s=deadline_s
        )

    def beyond_rule(self, pod: PodView, gang: Membership) -> str:
        """Return why the policy does not allow the Pod's gang, as a sentence; "" if it does, or is not known."""
        policy = self._policy() or TranslationPolicy()
        rule = policy.pods.rule_for(pod, self._namespace_labels(pod.namespace) or _NOTHING)
        return too_many(rule, gang.name, gang.expected or 0)

    def charged(self, pod: PodView, roots: Mapping[str, str]) -> Charge:
        """Return to whom its job is charged, whatever is said of the Pod now."""
        labels = self._namespace_labels(pod.namespace)
        return charged_to(pod, roots, self._policy() or TranslationPolicy(), labels or _NOTHING)

    def title(self, pod: PodView, roots: Mapping[str, str]) -> str:
        """Return the name by which the Pod's job is found, even while the Pod's settings are unusable."""
        return title_of(pod, roots, self._policy() or TranslationPolicy())
