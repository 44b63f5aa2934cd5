"""Looks for the selectors that cost the most: a hill climber over a grammar of building blocks.

An expression is a tree of productions; a step puts another subtree in, or wraps one. What counts is the processor time
and the peak of Python's memory of a compilation and one evaluation. Run it for longer with ROOTPORT_FUZZ_SECONDS.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from string import Formatter

from driver.api.resource_v1 import Device
from driver.cel.errors import CelCompileError
from driver.cel.selector import Selector
from driver.errors import InputError

LONGEST = 10 * 1024
DEVICE = Device.model_validate(
    {
        "name": "gpu-0",
        "attributes": {
            "a": {"int": 1},
            "s": {"string": "x" * 64},
            "v": {"version": "1.2.3"},
            **{f"extra{index}": {"string": "y" * 64} for index in range(28)},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }
)

# By type (bool, text, list, number): templates with the types of their holes. {n} is a small number, {N} a large one.
GRAMMAR: dict[str, tuple[str, ...]] = {
    "B": (
        "true",
        "{L}.all(x, {B})",
        "{L}.exists(x, !({B}))",
        "{L}.exists_one(x, {B})",
        "{L}.all(i, x, {B})",
        "{L}.size() < 0",
        "({S}).size() < 0",
        "{S}.matches({P})",
        "{S}.contains({S})",
        "{S}.startsWith({S})",
        "{S} == {S}",
        "{S} < {S}",
        "{L} == {L}",
        "{I} < {I}",
        "{I} in {L}",
        "{S} in {L}",
        "sets.contains({L}, {L})",
        "sets.intersects({L}, {L})",
        "{L}.isSorted()",
        "{L}.sum() < 0",
        "{L}.max() == {L}.min()",
        "{L}.indexOf({L}) < 0",
        "{L}.lastIndexOf({I}) < 0",
        "({B} && {B})",
        "({B} || {B})",
        "({B} ? {B} : {B})",
        "cel.bind(b, {L}, {B})",
        "cel.bind(t, {S}, {B})",
        'has(device.attributes["d"].x)',
        'device.attributes["d"].x == {S}',
        'device.attributes["d"][dyn({L})] == {S}',
        "device.attributes.exists(k, {B})",
        'device.attributes["gpu.example.com"].exists(k, {B})',
        "isQuantity({S})",
        "isSemver({S})",
        "isSemver({S}, true)",
        "isIP({S})",
        "isCIDR({S})",
        "ip.isCanonical({S})",
        'cidr("10.0.0.0/8").containsIP({S})',
        "timestamp('2024-01-01T00:00:00Z').getHours({S}) == 1",
        "duration({S}) == duration('1s')",
        "timestamp({S}) == timestamp('2024-01-01T00:00:00Z')",
        "optional.of({L}).optMap(x, {B}).orValue(true)",
        "optional.of({S}).optFlatMap(x, optional.of({B})).orValue(true)",
        "{L}.transformMap(i, x, {S}).size() < 0",
        "{L}.transformMapEntry(i, x, {{i: {S}}}).size() < 0",
        "type({L}) == list",
        "double({S}) == 1.0",
        "int({S}) == 1",
        "bytes({S}) == b''",
        "string(bytes({S})) == ''",
    ),
    "S": (
        "'{N}'",
        "'é{N}'",
        "'\U0001f600{N}'",
        "t",
        "string(x)",
        "device.driver",
        'device.attributes["gpu.example.com"].s',
        "{S}.replace({S}, {S})",
        "{S}.replace('', {S})",
        "({S} + {S})",
        "{S}.lowerAscii()",
        "{S}.upperAscii()",
        "strings.quote({S})",
        "{S}.trim()",
        "{S}.substring(1)",
        "{S}.find({P})",
        "{L}.join({S})",
        "{L}.join()",
        "string(b'{N}')",
        "string({I})",
        "string(1.5e{n})",
    ),
    "P": (
        "'(a?){{100}}'",
        "'((a?){{100}}){{10}}'",
        "'((a?){{100}}){{10}}((a?){{100}}){{10}}((a?){{100}}){{10}}'",
        "'(a|b)*a(a|b){{60}}c'",
        "'.*a.*b.*c|.*'",
        "'\\\\pL{{50}}'",
        "'(?P<a>a)(?P<b>a)(?P<c>a)*'",
        "'a'",
        "''",
        "({S} + '(a?){{100}}')",
        "{S}",
    ),
    "L": (
        "[{N1}]",
        "['{N}', '{N}']",
        "lists.range({n})",
        "lists.range({m})",
        "b",
        "{L}.map(x, {I})",
        "{L}.map(x, {S})",
        "{L}.map(x, {L})",
        "{L}.filter(x, {B})",
        "{L}.transformList(i, x, {S})",
        "{S}.split('')",
        "{S}.split({S})",
        "{S}.findAll({P})",
        "({L} + {L})",
        "[{L}, {L}, {L}, {L}]",
        "[{L}, {L}].flatten()",
        "{L}.flatten()",
        "{L}.distinct()",
        "{L}.sort()",
        "{L}.sortBy(x, {I})",
        "{L}.reverse()",
        "{L}.slice(0, {n})",
        "[{{'a': {S}}}]",
        "[quantity('{n}')]",
        "[optional.of({S})].unwrapOpt()",
    ),
    "I": ("{n}", "x", "i", "{L}.size()", "({S}).size()", "({I} + {I})", "({I} * {n})", "{S}.indexOf({S})"),
}
LEAVES = {"B": "true", "S": "'{N}'", "L": "[{N1}]", "I": "{n}", "P": "'a'"}


@dataclass(slots=True)
class Part:
    """A production with what stands in its holes."""

    type: str
    template: str
    parts: list[Part]
    number: int

    def text(self) -> str:
        """The expression; it ends early where it is already too long."""
        holes = iter(self.parts)
        pieces: list[str] = []
        for literal, name in split(self.template):
            pieces.append(literal)
            if name in GRAMMAR:
                pieces.append(next(holes).text())
            elif name:
                pieces.append(numbers(name, self.number))
            if sum(map(len, pieces)) > LONGEST:
                break
        return "".join(pieces)

    def walk(self) -> Iterator[Part]:
        """This part and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def split(template: str) -> Iterator[tuple[str, str]]:
    """The texts of a template, each with the name of the hole behind it, if there is one."""
    for literal, name, _, _ in Formatter().parse(template):
        yield literal, name or ""


def numbers(name: str, number: int) -> str:
    """What a hole for a number holds."""
    match name:
        case "n":
            return str(number % 100)
        case "m":
            return str(number * 100)
        case "N":
            return "a" * (number * 4)
        case _:
            return ",".join(["1"] * number)


def grown(chance: random.Random, type_: str, depth: int) -> Part:
    """A part of a type, with others below it while there is depth left."""
    template = chance.choice(GRAMMAR[type_]) if depth else LEAVES[type_]
    parts = [grown(chance, name, depth - 1) for _, name in split(template) if name in GRAMMAR]
    return Part(type_, template, parts, chance.choice((1, 3, 10, 30, 60, 95, 300, 700, 999)))


def copied(part: Part) -> Part:
    return Part(part.type, part.template, [copied(child) for child in part.parts], part.number)


def mutated(chance: random.Random, root: Part) -> Part:
    """Another expression that differs in one place."""
    root = copied(root)
    part = chance.choice(list(root.walk()))
    match chance.randrange(4):
        case 0:
            part.number = chance.choice((1, 3, 10, 30, 60, 95, 300, 700, 999))
        case 1:
            wrapping = grown(chance, part.type, 2)
            same = [other for other in wrapping.walk() if other is not wrapping and other.type == part.type]
            if same:
                hole = chance.choice(same)
                hole.template, hole.parts, hole.number = part.template, part.parts, part.number
                part.template, part.parts, part.number = wrapping.template, wrapping.parts, wrapping.number
        case _:
            new = grown(chance, part.type, chance.randrange(4))
            part.template, part.parts, part.number = new.template, new.parts, new.number
    return root


def seconds_of(expression: str) -> float:
    """The processor time of a compilation and an evaluation."""
    start = time.thread_time()
    evaluated(expression)
    return time.thread_time() - start


def compile_seconds(expression: str) -> float:
    """The processor time of a compilation."""
    start = time.thread_time()
    Selector(expression, stored=False)
    return time.thread_time() - start


def peak_of(expression: str) -> float:
    """The peak of Python's memory in MiB of a compilation and an evaluation."""
    tracemalloc.start()
    try:
        evaluated(expression)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def evaluated(expression: str) -> str:
    """What comes out of a selector that nobody remembers."""
    try:
        if len(expression.encode()) > LONGEST:
            return "too long"
        return str(Selector(expression, stored=False).matches("gpu.example.com", DEVICE))
    except CelCompileError as error:
        return f"compile: {error.problem}"
    except InputError as error:
        return str(error)


def worst(measure: Callable[[str], float], *, seconds: float, seed: int) -> tuple[float, str]:
    """The most that was found within a time, and the expression that takes it."""
    chance = random.Random(seed)
    ends = time.monotonic() + seconds
    best: list[tuple[float, str, Part]] = []
    while time.monotonic() < ends:
        if best and chance.random() < 0.85:
            part = mutated(chance, best[int(len(best) * chance.random() ** 2)][2])
        else:
            part = grown(chance, "B", chance.randrange(1, 6))
        text = part.text()
        if len(text) > LONGEST:
            continue
        found = measure(text)
        if len(best) < 40 or found > best[-1][0]:
            best = sorted([*best, (found, text, part)], key=lambda item: -item[0])[:40]
    return best[0][0], best[0][1]
