"""Distributions of lengths as bars of text, two next to each other in 80 columns."""

from __future__ import annotations

from itertools import zip_longest

from autotune.workload.counting import Lengths

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_WIDTH = 38
_BAR = 18
_MAX_ROWS = 14


def side_by_side(left: str, left_lengths: Lengths, right: str, right_lengths: Lengths) -> str:
    """Two pictures with titles; a row is a doubling."""
    rows = zip_longest(
        [left, *picture(left_lengths)], [right, *picture(right_lengths)], fillvalue=""
    )
    return "\n".join(f"  {one:<{_WIDTH}}  {two}".rstrip() for one, two in rows)


def picture(lengths: Lengths) -> list[str]:
    """A line per doubling: its range, a bar, and the share of all in percent."""
    found = lengths.by_doubling()
    if not found:
        return ["not recorded"]
    powers = list(range(min(found), max(found) + 1))
    lowest = max(powers[0], powers[-1] - _MAX_ROWS + 1)
    counts = {power: found.get(power, 0) for power in powers if power >= lowest}
    counts[lowest] += sum(count for power, count in found.items() if power < lowest)
    highest = max(counts.values())
    lines = []
    for power, count in counts.items():
        below = "< " if power == lowest > powers[0] else ""
        label = f"{below}{short(2 ** (power + 1))}" if below else f"{short(2**power)}–"
        share = 100 * count / lengths.n
        percent = f"{share:.0f} %" if share >= 1 or not count else "< 1 %"
        lines.append(f"{label:>7} {bar(count / highest):<{_BAR}} {percent:>5}")
    return lines


def bar(share: float) -> str:
    """A bar of a share of the full width, in eighths of a column; never nothing for something."""
    eighths = max(round(share * _BAR * 8), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def short(number: float) -> str:
    """``640``, ``16k``, ``1.2M``: in binary thousands where the number is a power of two."""
    for size, letter in ((2**20, "M"), (2**10, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"
