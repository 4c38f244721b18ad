"""How the API server is reached, which Pods are ours, and under which name."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from extender.config.values import Group, Text


class Kubernetes(Group):
    """The API server."""

    kubeconfig: Text | None = Field(
        None,
        description="kubeconfig file. Not given: the service account of the Pod that the extender runs in, or outside "
        "a cluster the file that kubectl uses.",
    )
    context: Text | None = Field(None, description="Context of the kubeconfig; not given: its current one.")
    connections: int = Field(100, ge=4, le=10_000, description="Most connections at a time.")


class Scheduler(Group):
    """Who we are."""

    name: Text = Field(
        "slurm",
        description="Pods with this `spec.schedulerName` are ours. Must be the schedulerName of the kube-scheduler "
        "profile that calls us. Written into each job's mark: when it changes, running jobs are no longer known "
        "as ours.",
    )
    cluster_id: Text | None = Field(
        None,
        description="Tells this cluster's jobs from those of other clusters on the same Slurm. Not given: the UID of "
        "the namespace kube-system. Set it only to take over jobs after a cluster was rebuilt.",
    )
    other_profiles: tuple[Text, ...] = Field(
        (),
        description="schedulerNames of the other profiles of the kube-scheduler that calls us, where it has some. It "
        "leaves their Bindings to us as well: Pods of these names are bound where it says, outside of Slurm. Nobody's "
        "else are.",
    )

    @model_validator(mode="after")
    def _others_are_others(self) -> Self:
        if self.name in self.other_profiles:
            raise ValueError(
                f"otherProfiles lists {self.name}, which is scheduler.name: its Pods are bound where Slurm says alone"
            )
        return self


class Scope(Group):
    """Whose Pods are served."""

    namespaces: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        None,
        description="Namespaces that are served; Pods of others are refused with an Event. Not given: all of them.",
    )

    @model_validator(mode="after")
    def _once(self) -> Self:
        names = list(self.namespaces or ())
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"namespaces lists {', '.join(twice)} more than once")
        return self
