"""Go's ``math/rand`` with a seed: the same numbers, so that an experiment of a Go program can be repeated exactly.

Source: Go 1.26, src/math/rand/rng.go and rand.go. Go promises that the numbers of a seeded generator stay as they are.

The generator is the additive lagged Fibonacci x[n] = x[n-607] + x[n-273] mod 2^64. A seed is mixed with 607 numbers
that Go has as a table: the same generator after 7.8e12 steps (gen_cooked.go). Here these steps are done in one go, by
taking x^7.8e12 modulo the recurrence's polynomial; that takes some hundredths of a second, and no table is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Final, TypeVar

__all__ = ["GoRandom"]

_T = TypeVar("_T")

_LENGTH: Final = 607
_TAP: Final = 273
_FEED: Final = _LENGTH - _TAP
_WORD: Final = (1 << 64) - 1
_INT31: Final = (1 << 31) - 1
_LEHMER: Final = 48271
_FOR_ZERO: Final = 89482311
_WARM_UP: Final = 20
_COOKED_STEPS: Final = 7_800_000_000_000
_SLOT: Final = 18
"""Bytes for a coefficient of a product: 607 products of two 64-bit numbers take 138 bits."""


class GoRandom:
    """What ``rand.New(rand.NewSource(seed))`` gives, and the package's own functions after ``rand.Seed(seed)``.

    Args:
        seed: A 64-bit integer.
    """

    def __init__(self, seed: int) -> None:
        cooked = _cooked()
        mixed = zip(_from_seed(seed % _INT31, shifts=(40, 20)), cooked, strict=True)
        self._numbers = [number ^ other for number, other in mixed]
        self._tap = 0
        self._feed = _FEED

    def uint64(self) -> int:
        """Return 64 bits."""
        self._tap = (self._tap - 1) % _LENGTH
        self._feed = (self._feed - 1) % _LENGTH
        number = (self._numbers[self._feed] + self._numbers[self._tap]) & _WORD
        self._numbers[self._feed] = number
        return number

    def int63(self) -> int:
        """Return a number of 63 bits, as ``Int63`` and, on machines of 64 bits, ``Int`` do."""
        return self.uint64() & (_WORD >> 1)

    def intn(self, bound: int) -> int:
        """Return a number below ``bound``, which is from 1 to 2^31 - 1, as ``Intn`` and ``Int31n`` do.

        Raises:
            ValueError: The bound is not such a number.
        """
        if not 1 <= bound <= _INT31:
            raise ValueError(f"{bound} is not from 1 to {_INT31}")
        if bound & (bound - 1) == 0:
            return self._int31() & (bound - 1)
        most = _INT31 - (1 << 31) % bound
        while (number := self._int31()) > most:
            pass
        return number % bound

    def shuffle(self, items: list[_T]) -> None:
        """Reorder the items as ``Shuffle`` does where it swaps them."""
        for at in range(len(items) - 1, 0, -1):
            other = self._by_multiplication(at + 1)
            items[at], items[other] = items[other], items[at]

    def perm(self, count: int) -> list[int]:
        """Return the numbers below ``count`` in an order, as ``Perm`` does."""
        order: list[int] = []
        for at in range(count):
            other = self.intn(at + 1)
            order.append(at)
            order[at] = order[other]
            order[other] = at
        return order

    def _int31(self) -> int:
        return self.int63() >> 32

    def _by_multiplication(self, bound: int) -> int:
        """Return a number below ``bound`` in the way that only ``Shuffle`` takes (``int31n`` in rand.go)."""
        while True:
            product = (self.int63() >> 31) * bound
            low = product & 0xFFFFFFFF
            if low >= bound or low >= ((1 << 32) - bound) % bound:
                return product >> 32


def _lehmer(number: int) -> Iterator[int]:
    while True:
        number = number * _LEHMER % _INT31
        yield number


def _from_seed(seed: int, *, shifts: tuple[int, int]) -> list[int]:
    """Return the 607 numbers that a seed gives, three of Lehmer's generator each."""
    numbers = _lehmer(seed or _FOR_ZERO)
    for _ in islice(numbers, _WARM_UP):
        pass
    first, second = shifts
    return [next(numbers) << first ^ next(numbers) << second ^ next(numbers) for _ in range(_LENGTH)]


@cache
def _cooked() -> Sequence[int]:
    """Return the table ``rngCooked``: the generator's numbers after so many steps from the seed 1 (gen_cooked.go).

    Step n writes x[n] to the place (334 - n) mod 607, so what is there at first is x[-606] to x[0].
    """
    start = _from_seed(1, shifts=(20, 10))
    terms = [start[(_FEED - n) % _LENGTH] for n in range(1 - _LENGTH, 1)]
    while len(terms) < 2 * _LENGTH:
        terms.append((terms[-_LENGTH] + terms[-_TAP]) & _WORD)
    # x[steps + k] is the sum of c[j] * x[j + k] where x^steps is the sum of c[j] * x^j modulo the recurrence. All k at
    # once are the middle of a product of polynomials.
    jump = _power(_COOKED_STEPS)
    after = _product(jump[::-1], terms)[_LENGTH - 1 : 2 * _LENGTH - 1]
    cooked = [0] * _LENGTH
    for k, number in enumerate(after):
        cooked[(_FEED - (_COOKED_STEPS + k + 1 - _LENGTH)) % _LENGTH] = number
    return tuple(cooked)


def _power(exponent: int) -> list[int]:
    """Return x^exponent modulo x^607 - x^334 - 1, with coefficients modulo 2^64."""
    power = [1] + [0] * (_LENGTH - 1)
    for bit in f"{exponent:b}":
        power = _reduced(_product(power, power))
        if bit == "1":
            power = _reduced([0, *power])
    return power


def _reduced(polynomial: list[int]) -> list[int]:
    """Return the remainder: x^607 is x^334 + 1, from the highest power down."""
    for at in range(len(polynomial) - 1, _LENGTH - 1, -1):
        polynomial[at - _LENGTH] += polynomial[at]
        polynomial[at - _TAP] += polynomial[at]
    return [coefficient & _WORD for coefficient in polynomial[:_LENGTH]]


def _product(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Return the product of two polynomials, as one of two integers (Kronecker's substitution)."""
    count = len(one) + len(other) - 1
    digits = (_packed(one) * _packed(other)).to_bytes(count * _SLOT, "little")
    return [int.from_bytes(digits[at : at + 8], "little") for at in range(0, count * _SLOT, _SLOT)]


def _packed(polynomial: Sequence[int]) -> int:
    return int.from_bytes(b"".join(number.to_bytes(_SLOT, "little") for number in polynomial), "little")
