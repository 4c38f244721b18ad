"""Translate Pods as tests want them: with every permission by default, and either a job or refusals expected."""

from extender.domain.jobs.job import JobRequest
from extender.domain.policy.site import RESTRICTED_KEYS, TranslationPolicy
from extender.domain.translation.translate import Translated, TranslationRefused, translate
from extender.domain.views import PodView
from extender.domain.wellknown import Reason

OWN, SUNK, BRIDGE = "slurm-extender.io/", "sunk.coreweave.com/", "slurmjob.slinky.slurm.net/"
NOW = 1_000_500.0
FREE = TranslationPolicy(allowed=RESTRICTED_KEYS)


def own(**settings: str) -> dict[str, str]:
    return {OWN + name.replace("_", "-"): value for name, value in settings.items()}


def translated(*pods: PodView, policy: TranslationPolicy = FREE, root: dict[str, str] | None = None) -> Translated:
    result = translate(pods, root or {}, policy, NOW)
    assert isinstance(result, Translated), result
    return result


def reasons(result: Translated) -> list[Reason]:
    return [notice.reason for notice in result.notices]


def request(*pods: PodView, policy: TranslationPolicy = FREE) -> JobRequest:
    return translated(*pods, policy=policy).request


def faults(*pods: PodView, policy: TranslationPolicy = FREE) -> tuple[str, ...]:
    result = translate(pods, {}, policy, NOW)
    assert isinstance(result, TranslationRefused), result
    return result.faults
