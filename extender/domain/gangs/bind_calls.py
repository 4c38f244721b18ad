"""Compute how long calls of `/bind` are held, and votes count, from the time after which kube-scheduler gives up."""

from __future__ import annotations

from dataclasses import dataclass

ANSWER_S = 1.0
"""What is left of kube-scheduler's time-out for the answer of a held call."""

BINDING_ANSWER_S = 0.5
"""The same for a member whose Binding has begun: for an error kube-scheduler would undo its ResourceClaims."""

RESOURCE_CLAIMS_S = 3.0
"""The same for a Pod whose ResourceClaims have to be written in that time, too."""

NEXT_TRY_S = 15.0
"""After the longest call: kube-scheduler's longest back-off, 10 s by default, and half of that for the next try."""


@dataclass(frozen=True, slots=True)
class BindCalls:
    """Bound calls of `/bind`, for a kube-scheduler that gives up after `timeout_s` (its `httpTimeout`).

    At `most` so many are held at a time.
    """

    timeout_s: float
    most: int

    def hold_s(self, *, undone_by_errors: bool) -> float:
        """Return how long the call of a member is held that waits for the others.

        `undone_by_errors`: an error makes kube-scheduler undo what it has set aside, and ResourceClaims come first.
        """
        return self.timeout_s - (RESOURCE_CLAIMS_S if undone_by_errors else ANSWER_S)

    @property
    def hold_for_binding_s(self) -> float:
        """Return the same once its Binding has begun."""
        return self.timeout_s - BINDING_ANSWER_S

    @property
    def written_within_s(self) -> float:
        """Return how long after its begin a call may still write ResourceClaims and the Binding of their Pod."""
        return self.timeout_s - ANSWER_S

    @property
    def vote_valid_s(self) -> float:
        """Return how long a vote counts: while its call is held, and until kube-scheduler has tried again."""
        return self.timeout_s + NEXT_TRY_S
