"""The launch command: the words a user would type, and how a trial changes a few of them.

Words are read as SGLang's argparse reads them: full and short spellings, unambiguous prefixes,
``--flag value`` and ``--flag=value``, the last of repeated flags. A word that is not asked about
keeps its place and its form. SGLang takes no positional words, so every word after a flag and
before the next ``--`` is a value of that flag.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Self

from autotune.core.trial import FlagValue
from autotune.engine.sglang.flags import FlagSpec, known_flags, secret_flags, spec_of
from autotune.errors import UsageError

MASK = "REDACTED"
LOCAL_HOST = "127.0.0.1"

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
# HF_TOKEN=..., OPENAI_API_KEY=...: words of `env` and of `docker run -e`.
_ASSIGNMENT = re.compile(
    r"(?<![A-Z0-9_])((?:[A-Z0-9_]+_)?(?:TOKEN|API_KEY|ACCESS_KEY|SECRET|PASSWORD)=)(\S+)"
)
_HUB_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{16,}")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a flag stands: words ``start`` up to, not including, ``end``."""

    start: int
    end: int
    spelling: str
    text: str | None
    joined: bool

    def rewritten(self, value: FlagValue) -> list[str]:
        """The words that give the flag this value, in the form it has here."""
        if value is False:
            return []
        if value is True:
            return [self.spelling]
        # argparse takes a word that starts with a dash for a value only behind "=".
        joined = self.joined or (isinstance(value, str) and value.startswith("-"))
        return [f"{self.spelling}={value}"] if joined else [self.spelling, str(value)]


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """An immutable launch command.

    Attributes:
        argv: the words, program first, as ``exec`` takes them; may hold secrets.
    """

    argv: tuple[str, ...]

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Self:
        """A command from its words, or from one word that holds the whole command line.

        Raises:
            UsageError: there is no word, or the flags are hidden inside a shell string.
        """
        words = tuple(argv)
        if len(words) == 1 and any(letter.isspace() for letter in words[0]):
            words = _split(words[0])
        if not words or not words[0]:
            raise UsageError(
                "the launch command is empty",
                hint="give it after --, e.g. -- python -m sglang.launch_server --model-path M",
            )
        if PurePath(words[0]).name in _SHELLS and any(w.startswith("-c") for w in words[1:3]):
            raise UsageError(
                f"the launch command is one string for {words[0]!r}: its flags cannot be changed",
                hint="give the words of the command itself after --",
            )
        return cls(words)

    @property
    def host(self) -> str | None:
        """The address to listen on, None where the command leaves it to SGLang."""
        host = self.flags(("host",)).get("host")
        return None if host is None else str(host)

    @property
    def api_key(self) -> str | None:
        """The key that requests must carry as ``Authorization: Bearer``."""
        key = self.flags(("api_key",)).get("api_key")
        return None if key is None else str(key)

    def flags(self, names: Iterable[str] | None = None) -> dict[str, FlagValue]:
        """Typed values of the flags that the command itself sets.

        Args:
            names: canonical names to look for; None looks for all flags of the table except
                secrets.

        Raises:
            UsageError: a flag lacks its value or has one of the wrong type.
        """
        if names is None:
            secret = {spec.name for spec in secret_flags()}
            names = [spec.name for spec in known_flags() if spec.name not in secret]
        found: dict[str, FlagValue] = {}
        for spec in map(spec_of, names):
            for place in self._places(spec):
                found[spec.name] = _read(spec, place)
        return found

    def with_flags(self, flags: Mapping[str, FlagValue]) -> LaunchCommand:
        """The command with these values: replaced wherever they stand, else appended.

        ``True`` puts a switch in, ``False`` takes a flag out, with its value if it has one.
        """
        words = list(self.argv)
        for name, value in flags.items():
            spec = spec_of(name)
            places = list(LaunchCommand(tuple(words))._places(spec))
            for place in reversed(places):
                words[place.start : place.end] = place.rewritten(value)
            if not places:
                words += _Place(0, 0, spec.spellings[0], None, False).rewritten(value)
        return LaunchCommand(tuple(words))

    def without(self, names: Iterable[str]) -> LaunchCommand:
        """The command without these flags and their values."""
        return self.with_flags(dict.fromkeys(names, False))

    def with_port(self, port: int) -> LaunchCommand:
        """The command on this port; an address given by the user stays."""
        command = self.with_flags({"port": port})
        return command if command.host else command.with_flags({"host": LOCAL_HOST})

    def with_words(self, words: Sequence[str]) -> LaunchCommand:
        """The command with more words at its end."""
        return LaunchCommand((*self.argv, *words))

    def secrets(self) -> tuple[str, ...]:
        """Values that must reach no file, longest first."""
        found = {
            place.text for spec in secret_flags() for place in self._places(spec) if place.text
        }
        for word in self.argv:
            found |= {match[2] for match in _ASSIGNMENT.finditer(word)}
            found |= set(_HUB_TOKEN.findall(word))
        return tuple(sorted(found - {MASK}, key=lambda value: (-len(value), value)))

    def redacted(self) -> LaunchCommand:
        """The command with every secret masked, fit for a file."""
        command = self
        for spec in secret_flags():
            if any(place.text for place in command._places(spec)):
                command = command.with_flags({spec.name: MASK})
        masked = (_ASSIGNMENT.sub(rf"\g<1>{MASK}", word) for word in command.argv)
        return LaunchCommand(tuple(_HUB_TOKEN.sub(MASK, word) for word in masked))

    def shell(self, *, multiline: bool = True) -> str:
        """The command quoted for a POSIX shell, without a line end.

        Args:
            multiline: one flag per line, joined with backslashes.
        """
        lines: list[list[str]] = [[]]
        for i, word in enumerate(self.argv):
            if i >= self._first_flag_word() and word.startswith("--"):
                lines.append([])
            lines[-1].append(shlex.quote(word))
        separator = " \\\n  " if multiline else " "
        return separator.join(" ".join(line) for line in lines if line)

    def _first_flag_word(self) -> int:
        """Index from which words belong to the server, not to ``docker run`` or ``numactl``."""
        start = 1
        for i, word in enumerate(self.argv):
            name = PurePath(word).name
            serve = name == "serve" and i > 0 and PurePath(self.argv[i - 1]).name == "sglang"
            if serve or name in ("sglang.launch_server", "launch_server.py"):
                start = i + 1
        return start

    def _places(self, spec: FlagSpec) -> Iterator[_Place]:
        for start in range(self._first_flag_word(), len(self.argv)):
            head, joined, text = self.argv[start].partition("=")
            if not head.startswith("--") or not spec.is_spelled(head):
                continue
            if joined:
                yield _Place(start, start + 1, head, text, True)
                continue
            end = start + 1
            most = {"switch": 0, "unknown": len(self.argv)}.get(spec.kind, 1)
            while end < len(self.argv) and end - start <= most and not _is_flag(self.argv[end]):
                end += 1
            values = self.argv[start + 1 : end]
            yield _Place(start, end, head, " ".join(values) if values else None, False)


def _read(spec: FlagSpec, place: _Place) -> FlagValue:
    if spec.kind == "switch":
        return True
    if place.text is None:
        if spec.kind == "unknown":
            return True
        raise UsageError(f"{place.spelling} in the launch command has no value")
    return spec.value_of(place.text)


def _is_flag(word: str) -> bool:
    """As argparse: a negative number is a value."""
    return re.match(r"--?[A-Za-z]", word) is not None or word == "--"


def _split(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"the launch command is not valid shell: {error}") from error
