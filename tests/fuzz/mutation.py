"""Makes bad input of good: bytes flipped, cut and repeated, and JSON with values that stand in the wrong place."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

__all__ = ["JSON_TOKENS", "TEXTS", "hostile_value", "json_mutated", "mutated", "spoilt"]

JSON_TOKENS: Final = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b'"',
        b"\\",
        b"\\u",
        b"\\ud800",
        b'{"a":',
        b"null",
        b"true",
        b"NaN",
        b"1e999",
    ),
    *(b"-0", b"1E", b"\xff", b"\xc3", b"\0", b"9" * 5000, b"\n", b"\xef\xbb\xbf", b'"":', b"-", b"1.5", b"0.1e-7"),
)
TEXTS: Final = (
    *(
        "",
        " ",
        "\0",
        "\x1b[2J",
        "\u202e",
        "\ud800",
        "é",
        "a" * 64,
        "a" * 300,
        "a" * 70_000,
        "a\nb",
        "..",
        "../../x",
        "/",
    ),
    *("-", ".", "0", "-1", "1e9", "9" * 400, "1Ei", "0x10de", "true", "null", "~", "{}", "%s", "{0}", "rootport.dev"),
)
_NUMBERS: Final = (0, -1, 1, 2**31, -(2**31) - 1, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, 1e-320)


def mutated(random: Random, data: bytes, tokens: Sequence[bytes] = JSON_TOKENS, *, most: int = 6) -> bytes:
    """Bytes with a few mistakes; one of them is, now and then, a token thousands of times."""
    found = bytearray(data)
    for _ in range(random.randint(1, most)):
        at = random.randrange(len(found) + 1)
        to = min(at + int(random.expovariate(1 / 20)), len(found))
        match random.randrange(8):
            case 0:
                found[at:to] = b""
            case 1:
                found[at:at] = found[at:to] * random.choice((1, 2, 50))
            case 2 if found:
                found[at % len(found)] = random.randrange(256)
            case 3:
                del found[at:]
            case 4:
                found[at:at] = random.choice(tokens) * random.choice((2, 300, 5000))
            case _:
                found[at : random.choice((at, to))] = random.choice(tokens)
    return bytes(found[:1_000_000])


def hostile_value(random: Random) -> Any:
    """A value of JSON that hardly any field is made for."""
    match random.randrange(9):
        case 0 | 1 | 2:
            return random.choice(TEXTS)
        case 3 | 4:
            return random.choice(_NUMBERS)
        case 5:
            return random.choice((None, True, False, [], {}, [None], {"": None}, [[]], [{}]))
        case 6:
            value: Any = random.choice(({}, [], 1, "a"))
            for _ in range(random.choice((3, 20, 70, 150))):
                value = [value] if random.randrange(2) else {"a": value}
            return value
        case 7:
            return [random.choice((None, 1, "a", {}, hostile_value(random)))] * random.choice((1, 2, 40))
        case _:
            return {f"{random.choice(TEXTS)[:300]}{number}": number for number in range(random.choice((3, 40, 1000)))}


def json_mutated(random: Random, value: Any, *, most: int = 3) -> Any:
    """A copy of JSON in which a few values are changed, left out, doubled, moved or renamed."""
    value = copy.deepcopy(value)
    for _ in range(random.randint(1, most)):
        places = list(_places(value))
        if not places:
            return hostile_value(random)
        parent, key = random.choice(places)
        other, there = random.choice(places)
        match random.randrange(7):
            case 0:
                del parent[key]
            case 1 if isinstance(parent, list):
                parent.extend([copy.deepcopy(parent[key])] * random.choice((1, 2, 5)))
            case 1 | 2 if isinstance(parent, dict):
                parent[random.choice((*TEXTS, *map(str, list(parent)[:5])))[:300]] = parent[key]
            case 3:
                parent[key] = copy.deepcopy(other[there])
            case _:
                parent[key] = hostile_value(random)
    return value


def spoilt(random: Random, value: Any) -> bytes:
    """JSON text, wrong in its values, in its form, or in both."""
    text = json.dumps(json_mutated(random, value) if random.randrange(4) else value).encode()
    return text if random.randrange(2) else mutated(random, text)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All places where a value stands in another, as the other and the key or index in it."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        parent = pending.pop()
        for key in parent if isinstance(parent, dict) else range(len(parent)):
            found.append((parent, key))
            if isinstance(parent[key], dict | list):
                pending.append(parent[key])
    return found
