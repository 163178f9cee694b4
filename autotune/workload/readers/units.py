"""Types that several formats share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

NonNegative = Annotated[int, Meta(ge=0)]
"""A count of tokens."""
Positive = Annotated[int, Meta(ge=1)]
Time = Annotated[float, Meta(ge=0)]
"""A point in time or a duration, in the unit of the format."""
SomeId = str | int
