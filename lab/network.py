"""A network namespace for a lab with kubelets: a kubelet refuses a loopback address, and no other one may be used.

The namespace has a loopback device and one bridge for each node; it goes with the last process that runs in it, so that
no crash leaves a device behind. Two labs have the same addresses and do not see each other.
"""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lab.errors import LabError
from lab.machine import require_programs, require_root
from lab.sandbox import system_call

CLONE_NEWNET = 0x40000000


def node_address(index: int) -> str:
    """Return the address of node ``index``, from 1 on."""
    return f"10.201.0.{index}"


def pod_subnet(index: int) -> str:
    """Return the addresses of the Pods of node ``index``."""
    return f"10.202.{index}.0/24"


@contextmanager
def isolated_network() -> Iterator[None]:
    """Move this thread, and every thread and process that it starts inside the block, to a new network namespace.

    Threads that run already stay where they are. Raises LabError where the block ends in another thread.
    """
    require_root()
    require_programs(("ip",))
    thread = threading.get_ident()
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        system_call("unshare", CLONE_NEWNET)
        try:
            ip("link", "set", "lo", "up")
            yield
        finally:
            if threading.get_ident() != thread:
                raise LabError("a lab with kubelets must be stopped by the thread that started it")
            system_call("setns", home, CLONE_NEWNET)
    finally:
        os.close(home)


def add_bridge(index: int) -> None:
    """Give this namespace a device with the address of node ``index``."""
    name = f"lab-{index}"
    ip("link", "add", name, "type", "bridge")
    ip("address", "add", f"{node_address(index)}/32", "dev", name)
    ip("link", "set", name, "up")


def ip(*words: str) -> None:
    """Run ip(8) in the namespace of this thread; raise LabError if it fails."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"ip {' '.join(words)} failed ({done.returncode}): {done.stderr.strip()}")
