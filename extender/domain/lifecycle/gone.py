"""GONE: every member has finished and so has the job; the engine forgets the workload when its timer fires."""

from __future__ import annotations

from extender.domain.lifecycle.rules import EVENTS, StateRules
from extender.domain.states import GoneState

RULES = StateRules(GoneState)
RULES.ignore("it has finished; a job that still lives is a duplicate, which is recorded in every state", *EVENTS)
