"""The parts of the lab by the names that `python -m lab build` takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab import build_controllers, build_kubernetes, build_node, build_slurm
from lab.build_kubernetes import GoBuild
from lab.clock import elapsed
from lab.cpu_driver import cpu_driver_build
from lab.dra_example import dra_example_build


@dataclass(frozen=True, slots=True)
class LabPart:
    """One part: ``build`` returns its folders. ``extra`` parts are built only where they are named, or when used."""

    what: str
    build: Callable[[], list[Path]]
    extra: bool = False


def lab_parts() -> dict[str, LabPart]:
    """Return every part by its name, in the order in which they are built."""
    parts = {f"slurm-{name}": _slurm(name) for name in build_slurm.RELEASES}
    parts |= {
        f"kubernetes-{minor}": _go(build_kubernetes.kubernetes_build(minor))
        for minor in build_kubernetes.kubernetes_minors()
    }
    parts |= {
        f"kubernetes-{minor}": _go(build_kubernetes.kubernetes_build(minor), extra=True)
        for minor in build_kubernetes.proved_minors()
    }
    parts["kwok"] = _go(build_kubernetes.kwok_build())
    parts["helm"] = _go(build_kubernetes.helm_build())
    parts["promtool"] = _go(build_kubernetes.promtool_build())
    parts["prometheus"] = _go(build_kubernetes.prometheus_build(), extra=True)
    parts["node"] = LabPart(f"{build_node.kubelet_build().name}, containerd, runc, CNI plugins, images", _node, True)
    parts["controllers"] = LabPart(", ".join(one.title for one in build_controllers.RECIPES), _controllers, True)
    example = dra_example_build()
    parts["dra-example"] = LabPart(example.name, partial(_built, example), True)
    parts["dra-driver-cpu"] = _go(cpu_driver_build(), extra=True)
    return parts


def build_parts(parts: Mapping[str, LabPart], say: Callable[[str], None]) -> None:
    """Build each part that is not in the cache yet, and report its programs and seconds. Raises `LabError`."""
    seconds = dict[str, float]()
    for name, part in parts.items():
        say(f"{name}: {part.what} ...")
        began = elapsed()
        for folder in part.build():
            say(f"  {', '.join(sorted(path.name for path in folder.iterdir())[:12])} in {folder}")
        seconds[name] = elapsed() - began
        say(f"  {seconds[name]:.1f} s")
    say("; ".join(f"{name} {took:.1f} s" for name, took in seconds.items()))


def _slurm(name: str) -> LabPart:
    release = build_slurm.release(name)
    return LabPart(f"Slurm {name} (Debian {release.suite})", lambda: [build_slurm.build(release)])


def _go(one: GoBuild, *, extra: bool = False) -> LabPart:
    return LabPart(one.name, partial(_built, one), extra)


def _built(one: GoBuild) -> list[Path]:
    return [build_kubernetes.build(one)]


def _node() -> list[Path]:
    programs = build_node.node_programs()
    return [programs.kubelet, programs.containerd, programs.debian]


def _controllers() -> list[Path]:
    return [build_controllers.build_controller(one) for one in build_controllers.RECIPES]
