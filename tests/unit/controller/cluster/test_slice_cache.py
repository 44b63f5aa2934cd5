"""The cache of slices never falls behind this process's own writes."""

from __future__ import annotations

from typing import Any

from controller.cluster.slice_cache import SliceCache


def wire(name: str, version: int, *, uid: str = "u1", pool: str = "node-a") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": uid, "resourceVersion": str(version)},
        "spec": {"pool": {"name": pool}},
    }


class World:
    def __init__(self) -> None:
        self.watched: dict[str, dict[str, Any]] = {}
        self.now = 0.0
        self.cache = SliceCache(self.watched.get, trust_s=60, clock=lambda: self.now)

    def event(self, name: str, seen: dict[str, Any] | None) -> tuple[str, ...]:
        if seen is None:
            self.watched.pop(name, None)
        else:
            self.watched[name] = seen
        return self.cache.refresh(name)

    def versions(self, pool: str = "node-a") -> list[str]:
        return [item["metadata"]["resourceVersion"] for item in self.cache.pool(pool)]


def test_writes_of_others_are_reported_by_pool() -> None:
    world = World()
    assert world.event("s", wire("s", 1)) == ("node-a",)
    assert world.event("s", wire("s", 2)) == ("node-a",)
    assert world.event("s", None) == ("node-a",)
    assert world.cache.pools() == ()


def test_an_own_write_is_there_at_once_and_its_event_reports_nothing() -> None:
    world = World()
    world.cache.written(wire("s", 5))
    assert world.versions() == ["5"]
    assert world.event("s", wire("s", 5)) == ()


def test_an_older_event_does_not_undo_an_own_write() -> None:
    world = World()
    world.event("s", wire("s", 9))
    world.cache.written(wire("s", 12))
    assert world.event("s", wire("s", 10)) == ()
    assert world.versions() == ["12"]


def test_an_own_deletion_is_not_undone_by_a_late_event() -> None:
    world = World()
    world.event("s", wire("s", 1))
    world.cache.deleted("s", "u1")
    assert world.versions() == []
    assert world.event("s", wire("s", 2)) == ()
    assert world.versions() == []
    assert world.event("s", None) == ()


def test_a_new_slice_of_a_deleted_name_counts() -> None:
    world = World()
    world.event("s", wire("s", 1))
    world.cache.deleted("s", "u1")
    assert world.event("s", wire("s", 4, uid="u2")) == ("node-a",)
    assert world.versions() == ["4"]


def test_a_write_that_the_watch_never_shows_is_doubted_in_time() -> None:
    world = World()
    world.cache.written(wire("s", 5))
    world.now = 60
    assert (world.versions(), world.cache.doubtful()) == (["5"], ())
    world.now = 61
    assert world.cache.doubtful() == ("node-a",)
    assert world.versions() == []


def test_versions_are_compared_as_numbers() -> None:
    world = World()
    world.event("s", wire("s", 9))
    assert world.event("s", wire("s", 10)) == ("node-a",)


def test_a_write_that_the_watch_has_shown_is_never_doubted() -> None:
    world = World()
    world.cache.written(wire("s", 5))
    world.event("s", wire("s", 5))
    world.now = 1000
    assert world.cache.doubtful() == ()


def test_the_event_of_an_own_write_reports_nothing_if_it_comes_before_the_answer() -> None:
    world = World()
    for version in (5, 7):  # created, then replaced
        with world.cache.writing("s"):
            assert world.event("s", wire("s", version)) == ()
            world.cache.written(wire("s", version))
        assert world.versions() == [str(version)]
        assert world.cache.doubtful() == ()


def test_what_another_process_changes_before_the_answer_is_read_is_reconciled() -> None:
    world = World()
    with world.cache.writing("s"):
        world.event("s", wire("s", 5))
        world.event("s", wire("s", 6))
        world.cache.written(wire("s", 5))
    assert world.versions() == ["6"]
    assert world.cache.doubtful() == ("node-a",)
    assert world.cache.doubtful() == ()


def test_a_deletion_by_another_process_is_reported_while_a_write_is_under_way_and_everything_after_it() -> None:
    world = World()
    world.event("s", wire("s", 1))
    with world.cache.writing("s"):
        assert world.event("s", None) == ("node-a",)
    assert world.event("s", wire("s", 3)) == ("node-a",)
