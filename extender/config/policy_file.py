"""Reads the policy file, and reads it again when it changes. One that cannot be used keeps the last valid one.

A mounted ConfigMap is swapped by a symlink, and a file that is renamed into its place is whole too: text of another
file counts at once. Text that was written into the same file may be half of it, and half a list of rules is a list of
rules: it has to be the same at two checks. The text is compared and not the file's times. kubelet brings a changed
ConfigMap within a minute or so (its sync period and the age of its cache).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import structlog

from extender.config.derive import translation_policy
from extender.config.document import ExtenderConfiguration
from extender.config.faults import ConfigError
from extender.config.load import Overrides, held_to, read_map, text_of
from extender.config.pod_policy import PodPolicyDocument
from extender.config.schema_keys import POLICY
from extender.domain.policy.site import TranslationPolicy
from extender.domain.policy.tenancy import ANY, PodPolicy, TenancyRule
from extender.domain.translation.annotation_table import GROUP_ID, USER_ID
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import PolicyChanged, PolicyFileRead


def load_policy(file: Path, configuration: ExtenderConfiguration) -> TranslationPolicy:
    """Return the site's decisions, those of the policy file among them.

    Raises ConfigError with everything that is wrong.
    """
    return parse_policy(text_of(file), str(file), configuration)


def parse_policy(text: str, name: str, configuration: ExtenderConfiguration) -> TranslationPolicy:
    """Read a policy from text as `load_policy` reads a file; `name` stands for it in faults.

    Raises ConfigError.
    """
    document, origin = read_map(text, name, "apiVersion, kind and rules")
    found = held_to(PodPolicyDocument, POLICY, document, origin, Overrides())
    policy = translation_policy(configuration)
    if unknown := [f"{name}: {fault}" for fault in _unknown_people(found, policy)]:
        raise ConfigError(unknown)
    return replace(policy, pods=_policy(found))


def _policy(document: PodPolicyDocument) -> PodPolicy:
    return PodPolicy(
        rules=tuple(
            TenancyRule(one.name, one.match, one.defaults, one.allow, one.startup_deadline) for one in document.rules
        ),
        owners=document.owners,
        classes=document.priority_classes,
    )


def _unknown_people(document: PodPolicyDocument, policy: TranslationPolicy) -> Iterator[str]:
    """Return names that the configuration lacks. A name made of a Pod's namespace is checked for each Pod."""
    users: list[tuple[str, str | None]] = []
    groups: list[tuple[str, str | None]] = []
    for at, rule in enumerate(document.rules):
        place = f"rules[{at}]"
        users += [(f"{place}.defaults.userId", rule.defaults.get(USER_ID))]
        users += [(f"{place}.allow.userId", one) for one in rule.allow.user_id or ()]
        groups += [(f"{place}.defaults.groupId", rule.defaults.get(GROUP_ID))]
        groups += [(f"{place}.allow.groupId", one) for one in rule.allow.group_id or ()]
    for at, owner in enumerate(document.owners):
        users += [(f"owners[{at}].user", None if owner.user is not None and "{" in owner.user else owner.user)]
        groups += [(f"owners[{at}].group", owner.group)]
    for where, given, known in (("users", users, policy.user), ("groups", groups, policy.group)):
        for key, text in given:
            if text is not None and text != ANY and known(text) is None:
                yield f'{key}: "{text}" is not known; it must be a number, or a name from slurm.{where}'


_log = structlog.get_logger(__name__)

CHECK_EVERY = 2.0
"""Seconds between two looks at the file."""

GOOD, BAD = "valid", "invalid"


class PolicyFile:
    """The policy in force. Where the configuration names no file, it is that of the configuration itself.

    A file that cannot be used at the start does not keep the process from starting: what runs has to be ended when its
    job ends. `policy` is `None` then, and nothing new is asked of Slurm.
    """

    def __init__(self, configuration: ExtenderConfiguration, events: EventBus) -> None:
        self._events = events
        named = configuration.jobs.policy_file
        self._configuration = configuration
        self._file = None if named is None else Path(named)
        self._seen = ""
        self._read: tuple[object, str] | None = None
        """The file that was read last, and its text."""

        self.policy: TranslationPolicy | None = translation_policy(configuration) if named is None else None
        self.trouble = ""
        """Faults of the file as it is now; "" where it is in force."""

        self.loads: Counter[str] = Counter({GOOD: 0, BAD: 0})
        self.check()

    @property
    def given(self) -> bool:
        """Return whether there is a file."""
        return self._file is not None

    def check(self) -> None:
        """Apply a changed file. Its faults are logged once."""
        if self._file is None:
            return
        try:
            text = text_of(self._file)
            seen = f"read: {text}"
            if not self._whole(text) or seen == self._seen:
                return
            policy = parse_policy(text, str(self._file), self._configuration)
        except ConfigError as error:
            self._refuse(error)
            return
        restored = bool(self.trouble)
        self._seen, self.trouble = seen, ""
        self.loads[GOOD] += 1
        news = policy != self.policy
        self.policy = policy
        _log.info("policy_in_force", file=str(self._file), rules=len(policy.pods.rules), changed=news)
        if restored:
            self._events.publish(PolicyFileRead(""))
        if news:
            self._events.publish(PolicyChanged())

    def _whole(self, text: str) -> bool:
        """Return whether the file is not being written."""
        before, self._read = self._read, (_which(self._file), text)
        return before is None or before == self._read or before[0] != self._read[0]

    def _refuse(self, error: ConfigError) -> None:
        trouble = "; ".join(error.faults)
        if trouble == self.trouble:
            return
        self._seen, self.trouble = "", trouble
        self.loads[BAD] += 1
        _log.error("policy_unusable", faults=list(error.faults), last_good_stays=self.policy is not None)
        self._events.publish(PolicyFileRead(trouble))

    async def run(self) -> None:
        """Check the file at intervals until cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY)
            self.check()


def _which(file: Path | None) -> object:
    """Return what distinguishes a file from the one that was there before."""
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return found and (found.st_dev, found.st_ino)
