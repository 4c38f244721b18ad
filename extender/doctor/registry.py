"""Register checks: each declares which facts it needs, and runs only if they are known.

    check = CheckGroup()

    @check(needs=lambda facts: (facts.slurm.token, facts.config.slurm.user))
    def token(credential: Token, user: str) -> Iterator[Finding]: ...

The parameters of the function are the facts, so that a test calls it with values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVarTuple

from extender.doctor.facts import Facts
from extender.doctor.finding import Finding

Ts = TypeVarTuple("Ts")


class CheckGroup:
    """The checks of one subject, in the order of their definition, which is the order of their lines."""

    def __init__(self) -> None:
        self._checks: list[Callable[[Facts], Iterable[Finding]]] = []

    def __call__(
        self, *, needs: Callable[[Facts], tuple[*Ts] | None]
    ) -> Callable[[Callable[[*Ts], Iterable[Finding]]], Callable[[*Ts], Iterable[Finding]]]:
        """Register a function. `needs` returns its arguments; `None`: they are not known, and the check is left out."""

        def register(judge: Callable[[*Ts], Iterable[Finding]]) -> Callable[[*Ts], Iterable[Finding]]:
            def run(facts: Facts) -> Iterable[Finding]:
                arguments = needs(facts)
                return () if arguments is None else judge(*arguments)

            self._checks.append(run)
            return judge

        return register

    def judge(self, facts: Facts) -> Iterator[Finding]:
        """Run the checks whose facts are known."""
        for check in self._checks:
            yield from check(facts)
