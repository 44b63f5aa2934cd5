"""Log lines: one event a line, whatever stands in it."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from driver.adapters.logs import KeyValueFormatter


def line(message: str, *args: object, **extra: object) -> str:
    record = logging.makeLogRecord(
        {"name": "a.b", "levelname": "INFO", "levelno": 20, "msg": message, "args": args, "created": 0.5, **extra}
    )
    return KeyValueFormatter().format(record)


HEAD = "time=1970-01-01T00:00:00.500Z level=info logger=a.b"


@pytest.mark.parametrize(
    ("message", "extra", "rest"),
    [
        ("started", {}, "msg=started"),
        ("claim prepared", {"uid": "4f-1", "ms": 1.5}, 'msg="claim prepared" uid=4f-1 ms=1.5'),
        ("x", {"path": "a b"}, 'msg=x path="a b"'),
        ("x", {"text": 'say "hi"\nlevel=error'}, 'msg=x text="say \\"hi\\"\\nlevel=error"'),
        ("x", {"text": "\x1b[31m\u202e"}, 'msg=x text="\\u001b[31m\\u202e"'),
        ("x", {"nothing": ""}, 'msg=x nothing=""'),
        ("line\nlevel=error", {}, 'msg="line\\nlevel=error"'),
        ('event=done op=1 error="a b"', {}, 'event=done op=1 error="a b"'),
        ('event=done error="a', {}, 'msg="event=done error=\\"a"'),
        ("a=b\nlevel=error", {}, 'msg="a=b\\nlevel=error"'),
    ],
)
def test_a_record_is_one_line_of_pairs(message: str, extra: dict[str, object], rest: str) -> None:
    assert line(message, **extra) == f"{HEAD} {rest}"


def test_a_traceback_is_a_value() -> None:
    try:
        int("a bug")
    except ValueError:
        text = line("failed", exc_info=sys.exc_info())
    assert "\n" not in text
    assert 'traceback="Traceback' in text
    assert "ValueError: invalid literal" in text


def test_a_value_that_is_very_long_is_cut() -> None:
    text = line("said", what="a\n" * 500_000, error=ValueError("b" * 500_000))
    assert text.startswith(f'{HEAD} msg=said what="a\\n')
    assert len(text) < 25_000


def test_our_own_logs_follow_the_level_and_libraries_only_warn() -> None:
    script = (
        "import logging; from driver.adapters.logs import configure; configure('debug')\n"
        "logging.getLogger('kubeletplugin.x').debug('ours'); logging.getLogger('urllib3').info('theirs')\n"
        "logging.getLogger('urllib3').warning('beware'); configure('error')\n"
        "logging.getLogger('controller.x').warning('too low')"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [entry.rpartition("msg=")[2] for entry in result.stderr.splitlines()] == ["ours", "beware"]
