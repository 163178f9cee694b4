"""Types that several formats share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

MAX_TOK = 10_000_000
"""Longer than the context of any model: a number above it is not a count of tokens."""
Count = Annotated[int, Meta(ge=0, le=MAX_TOK)]
"""A count of tokens."""
Positive = Annotated[int, Meta(ge=1, le=MAX_TOK)]
Time = Annotated[float, Meta(ge=0, le=1e15)]
"""A point in time or a duration, in the unit of the format; at most the year 30,000 in ms."""
SomeId = str | int
