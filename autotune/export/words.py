"""What the words of a launch command mean to those who write them down elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.placement import Placement
from autotune.errors import UsageError

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_OPTION = re.compile(r"--?[A-Za-z]")
_SIMULATED_ONLY = (
    "--scenario", "--speed", "--startup-speed", "--simulation-seed", "--no-noise", "--fail",
    "--fail-from-steps", "--looping-answers", "--draft-quality", "--slow-down", "--slow-down-after",
)  # fmt: skip
"""Options of the simulated server that SGLang lacks."""


@dataclass(frozen=True, slots=True)
class Option:
    """A flag of the server with the words behind it.

    Attributes:
        head: as written, with its dashes.
        values: its words; none for a switch.
    """

    head: str
    values: tuple[str, ...]
    joined: bool = False


def options_of(words: Sequence[str]) -> Iterator[Option]:
    """The server's words, flag by flag; a word that starts like a flag is one, as for argparse."""
    at = 0
    while at < len(words):
        head, joined, text = words[at].partition("=")
        if joined and _OPTION.match(head):
            yield Option(head, (text,), True)
            at += 1
            continue
        end = at + 1
        while end < len(words) and not (_OPTION.match(words[end]) or words[end] == "--"):
            end += 1
        yield Option(words[at], tuple(words[at + 1 : end]))
        at = end


def split_environment(argv: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables that ``env A=1 B=2 program`` sets, and the program with its words.

    An ``env`` with options of its own stays as it is.
    """
    if not argv or PurePath(argv[0]).name != "env":
        return {}, tuple(argv)
    found: dict[str, str] = {}
    at = 1
    while at < len(argv) and (match := _ASSIGNMENT.fullmatch(argv[at])):
        found[match[1]] = match[2]
        at += 1
    if at == len(argv) or argv[at].startswith("-"):
        return {}, tuple(argv)
    return found, tuple(argv[at:])


def server_words(command: LaunchCommand, format_name: str) -> tuple[str, ...]:
    """The server's own words alone, those of its ``--config`` file first.

    Raises:
        UsageError: a script of the user adds words that are not known here.
    """
    hint = "--format shell writes the whole command as it is"
    if not command.shows_flags:
        raise UsageError(
            f"the launch command is a script of your own, whose flags {format_name} cannot know",
            hint=hint,
        )
    words = command.server_words()
    is_script = Placement.of(command.argv).words != command.argv
    if is_script and any(sign in word for word in words for sign in "$`"):
        raise UsageError(
            f"a variable of your script sets flags, whose value {format_name} cannot know",
            hint=hint,
        )
    if any(word.endswith("autotune.engine.simulated") for word in command.argv):
        kept = [option for option in options_of(words) if option.head not in _SIMULATED_ONLY]
        words = tuple(word for option in kept for word in _written(option))
    return words


def _written(option: Option) -> tuple[str, ...]:
    if option.joined:
        return (f"{option.head}={option.values[0]}",)
    return (option.head, *option.values)


def check_text(words: Iterable[str]) -> None:
    """Refuses words that no text file can hold.

    Raises:
        UsageError: a word is no valid Unicode.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"the word {word!a} of the launch command is not valid UTF-8, and no file of text "
                "can hold it"
            ) from None


def comments(lines: Iterable[str]) -> str:
    """Lines as comments that end where the line ends, in every format that has ``#``."""
    return "".join(f"# {_one_line(line)}\n" for line in lines)


def _one_line(text: str) -> str:
    clean = "".join(letter if letter.isprintable() else " " for letter in text)
    return clean.rstrip("\\ ")


def masked_names(environment: Mapping[str, str], mask: str) -> list[str]:
    """Names of the variables whose value is a secret that was masked."""
    return [name for name, value in environment.items() if mask in value]
