"""The simulated etcd and who listens to it."""

from __future__ import annotations

from simulator.kube.objects import a_pod
from simulator.kube.resources import PODS
from simulator.kube.storage import ObjectKey, Storage

KEY = ObjectKey(PODS, "default", "web")


def test_a_restore_that_brings_an_older_object_of_the_same_name_back_says_that_the_newer_one_is_gone() -> None:
    storage, told = Storage(), []
    older = storage.put(KEY, _named(storage))
    saved = storage.save()
    storage.remove(KEY)
    newer = storage.put(KEY, _named(storage))
    storage.listen(lambda event: told.append((event.type, event.object["metadata"]["uid"])))
    storage.restore(saved)
    assert told == [("DELETED", newer["metadata"]["uid"]), ("ADDED", older["metadata"]["uid"])]


def _named(storage: Storage) -> dict[str, object]:
    pod = a_pod("web")
    pod["metadata"]["uid"] = storage.new_uid()
    return pod
