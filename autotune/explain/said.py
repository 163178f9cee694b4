"""Figures as they stand in a sentence, each with its source."""

from __future__ import annotations

import re

from autotune.explain.document import Figure

_SOURCES = {"measured": "measured", "server": "told by the server", "model": "model"}
_DIGITS = {"s": 3, "tokens": 2, "GB": 1, "%": 1, "tok/s": 0, "requests": 0}
_SHOWN = 0.005
"""An interval narrower than this share of the value is not worth its words."""

_NUMBER = re.compile(r"([+−] )?[\d.,]+( (%|s|ms|tok/s|tokens|requests?|GB)(?!\w))?( ± [\d.]+ %?)?")
"""What stays on one line: a number with its sign, its unit and its spread."""
_HELD = "\N{NO-BREAK SPACE}"


def plain(figure: Figure) -> str:
    """``0.865 s ± 3 %``, ``− 4.2 %`` or ``7 requests``, without the source."""
    value = _number(figure, figure.value)
    return f"{value} %" if figure.unit == "%" else f"{value}{_unit(figure)}{_half(figure)}"


def said(figure: Figure) -> str:
    """The same with its source: ``0.865 s ± 3 % (measured)``, ``− 4.2 % (− 5.1 to − 3, model)``."""
    ends = f"{_ends(figure)}, " if figure.unit == "%" and figure.low is not None else ""
    return f"{plain(figure)} ({ends}{_SOURCES[figure.source]})"


def share(frac: float) -> str:
    """``82 %``; never a certainty that no measurement gives."""
    if frac < 0.01:
        return "under 1 %"
    return "over 99 %" if frac > 0.99 else f"{100 * frac:.0f} %"


def capital(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def _number(figure: Figure, value: float) -> str:
    digits = _DIGITS.get(figure.unit, 2)
    if figure.unit == "s" and abs(value) < 0.1:
        return f"{1e3 * value:.1f}"
    if figure.unit == "requests" and value != round(value):
        digits = 1
    text = f"{abs(value) if figure.unit == '%' else value:,.{digits}f}"
    if figure.unit != "%":
        return text
    return f"{'−' if value < 0 and float(text.replace(',', '')) else '+'} {text}"


def _unit(figure: Figure) -> str:
    if figure.unit == "s" and abs(figure.value) < 0.1:
        return " ms"
    if figure.unit == "requests" and figure.value == 1:
        return " request"
    return f" {figure.unit}" if figure.unit else ""


def _half(figure: Figure) -> str:
    if figure.low is None or figure.high is None or not figure.value:
        return ""
    half = (figure.high - figure.low) / 2 / abs(figure.value)
    if half < _SHOWN:
        return ""
    return f" ± {100 * half:.0f} %" if half >= 0.01 else f" ± {100 * half:.1f} %"


def _ends(figure: Figure) -> str:
    return f"{_number(figure, figure.low or 0.0)} to {_number(figure, figure.high or 0.0)}"


def unbroken(text: str) -> str:
    """The text with no-break spaces inside its numbers, for whoever breaks it into lines."""
    return _NUMBER.sub(lambda found: found[0].replace(" ", _HELD), text)
