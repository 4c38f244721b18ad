"""Built things are made once, and are seen whole or not at all."""

import fcntl
import threading
from pathlib import Path

import pytest

from lab.cache import build_once, cache_folder, recipe_hash


def test_a_second_builder_gets_what_the_first_one_made(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        (folder / "program").write_text("1")

    first = build_once("thing", "k1", build, cache=tmp_path)
    second = build_once("thing", "k1", build, cache=tmp_path)

    assert first == second
    assert (first / "program").read_text() == "1"
    assert len(built) == 1


def test_another_recipe_is_another_folder(tmp_path: Path) -> None:
    one = build_once("thing", "k1", lambda folder: None, cache=tmp_path)
    two = build_once("thing", "k2", lambda folder: None, cache=tmp_path)
    assert one != two


def test_a_build_that_fails_leaves_no_result_that_seems_finished(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise RuntimeError("the network went away")

    with pytest.raises(RuntimeError):
        build_once("thing", "k1", fail, cache=tmp_path)

    again = build_once("thing", "k1", lambda folder: (folder / "whole").touch(), cache=tmp_path)
    assert [path.name for path in again.iterdir()] == ["whole"]


def test_builders_of_one_thing_wait_for_each_other(tmp_path: Path) -> None:
    inside, may_finish = threading.Event(), threading.Event()
    built: list[str] = []

    def slow(folder: Path) -> None:
        built.append("slow")
        inside.set()
        may_finish.wait()

    def second(folder: Path) -> None:
        built.append("second")

    threads = [threading.Thread(target=build_once, args=("thing", "k1", slow), kwargs={"cache": tmp_path})]
    threads[0].start()
    inside.wait()
    threads.append(threading.Thread(target=build_once, args=("thing", "k1", second), kwargs={"cache": tmp_path}))
    threads[1].start()
    may_finish.set()
    for thread in threads:
        thread.join()

    assert built == ["slow"]


def test_no_other_process_can_build_a_thing_while_it_is_being_built(tmp_path: Path) -> None:
    refused: list[bool] = []

    def build(folder: Path) -> None:
        [lock] = (tmp_path / "locks").iterdir()
        with lock.open() as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                refused.append(True)

    build_once("thing", "k1", build, cache=tmp_path)
    assert refused == [True]


def test_every_part_of_a_recipe_counts_and_so_does_where_it_ends() -> None:
    assert recipe_hash("ab", "c") != recipe_hash("a", "bc")
    assert recipe_hash("a", b"b") == recipe_hash("a", "b")


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("SLURM_EXTENDER_LAB_CACHE", raising=False)
    assert cache_folder() == tmp_path / "xdg" / "slurm-extender-lab"
    monkeypatch.setenv("SLURM_EXTENDER_LAB_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
