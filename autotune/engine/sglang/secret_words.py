"""Secrets inside the words of a command: assigned variables, tokens of the hub, URL passwords."""

from __future__ import annotations

import re

MASK = "REDACTED"

_NAME = (
    r"(?<![A-Za-z0-9_])((?:[A-Za-z0-9_]+_)?"
    r"(?:TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|SECRET|(?i:PASSWORD|PASSWD|CREDENTIALS))=)"
)
"""HF_TOKEN=…, OPENAI_API_KEY=…, db_password=…: words of ``env`` and ``docker run -e``, or of a
script. ``pad_token=…`` is none."""
_ASSIGNMENT = re.compile(_NAME + r"(\S+)")
_SCRIPT_ASSIGNMENT = re.compile(_NAME + r"""["']?([^\s"';&|]+)["']?""")
_HUB_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{16,}")
_URL_PASSWORD = re.compile(r"(://[^/\s@:]*:)([^/\s@]+)(?=@)")


def secrets_in(word: str) -> set[str]:
    """The secrets of a word, which may be a whole script."""
    found = {match[2] for match in _assignments(word).finditer(word)}
    found |= {match[2] for match in _URL_PASSWORD.finditer(word)}
    return found | set(_HUB_TOKEN.findall(word))


def masked(word: str) -> str:
    """The word with its secrets masked."""
    word = _assignments(word).sub(rf"\g<1>{MASK}", word)
    return _HUB_TOKEN.sub(MASK, _URL_PASSWORD.sub(rf"\g<1>{MASK}", word))


def names_in(word: str) -> list[str]:
    """What the secrets of a word are called, for people; in order."""
    found = [match[1].removesuffix("=") for match in _assignments(word).finditer(word)]
    if _URL_PASSWORD.search(word):
        found.append("the password of an address")
    if _HUB_TOKEN.search(_assignments(word).sub("", word)):
        found.append("a token of the hub")
    return found


def _assignments(word: str) -> re.Pattern[str]:
    return _SCRIPT_ASSIGNMENT if any(letter.isspace() for letter in word) else _ASSIGNMENT
