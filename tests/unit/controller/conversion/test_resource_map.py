"""The resource map in force is the file's, as long as that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.conversion.resource_map import ResourceMapInForce
from driver.errors import InputError

_MAP = "apiVersion: rootport.dev/v1alpha1\nkind: ResourceMap\nresources:\n- name: {}\n"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_change_is_in_force_a_second_later_and_a_mistake_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, clock = tmp_path / "map.yaml", Clock()
    file.write_text(_MAP.format("example.com/a"))
    held = ResourceMapInForce(file, clock=clock)
    first = held.settings()
    assert list(first.resources) == ["example.com/a"]
    file.write_text(_MAP.format("example.com/much-longer"))
    assert held.settings() is first
    clock.now += 1
    assert list(held.settings().resources) == ["example.com/much-longer"]
    second = held.settings()
    file.write_text("kind: Nothing\n")
    clock.now += 1
    assert held.settings() is second
    assert "what was in force stays" in caplog.text
    file.unlink()
    clock.now += 1
    assert held.settings().resources == {}


def test_without_a_file_nothing_is_mapped(tmp_path: Path) -> None:
    assert ResourceMapInForce(None).settings().resources == {}
    assert ResourceMapInForce(tmp_path / "none").settings().resources == {}


@pytest.mark.parametrize("text", ["", "kind: Nothing\n"])
def test_a_wrong_map_is_an_error_at_the_start(tmp_path: Path, text: str) -> None:
    file = tmp_path / "map.yaml"
    file.write_text(text)
    with pytest.raises(InputError):
        ResourceMapInForce(file)
    with pytest.raises(InputError, match="there is no folder"):
        ResourceMapInForce(tmp_path / "nowhere" / "map.yaml")
