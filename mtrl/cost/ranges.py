"""A quantity that is known only within bounds, and the arithmetic of such."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """Three values in order; none is negative."""

    low: float
    expected: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.expected <= self.high:
            raise ValueError(f"not in order: {self.low}, {self.expected}, {self.high}")

    @classmethod
    def exactly(cls, value: float) -> Range:
        """A quantity known for sure."""
        return cls(value, value, value)

    @classmethod
    def between(cls, one: float, other: float) -> Range:
        """Anything between two values; the middle is expected."""
        return cls(min(one, other), (one + other) / 2, max(one, other))

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def __mul__(self, other: Range | float) -> Range:
        by = other if isinstance(other, Range) else Range.exactly(other)
        return Range(self.low * by.low, self.expected * by.expected, self.high * by.high)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def values(self) -> tuple[float, float, float]:
        """Low, expected, high."""
        return (self.low, self.expected, self.high)
