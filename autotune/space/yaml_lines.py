"""YAML in which every value remembers its line, so that an error can point at it.

Only plain data comes through: mappings with text keys, lists, text, numbers, true, false and
null. Tags, dates, aliases and repeated keys are refused with a line. It knows nothing of spaces
or studies: the caller says which ``ConfigError`` it raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from autotune.errors import ConfigError, nearest

MAX_BYTES = 1_000_000
"""A larger file is not one that a person wrote."""

_TAG = "tag:yaml.org,2002:"

Scalar: TypeAlias = str | int | float | bool | None
Plain: TypeAlias = Scalar | list["Plain"] | dict[str, "Plain"]


@dataclass(frozen=True, slots=True)
class Located:
    """One value of a YAML file.

    Attributes:
        value: a scalar, or a list or mapping of more located values.
        file: the file as errors name it.
        line: 1-based; for a value in a mapping, the line of its key.
        error_type: what ``error`` makes.
    """

    value: Scalar | list[Located] | dict[str, Located]
    file: str
    line: int
    error_type: type[ConfigError] = ConfigError

    def error(self, message: str, *, hint: str = "") -> ConfigError:
        """``FILE, line N: message``, to be raised by the caller."""
        return self.error_type(f"{self.file}, line {self.line}: {message}", hint=hint)

    def mapping(self, what: str = "this", known: Iterable[str] | None = None) -> dict[str, Located]:
        """The entries of a mapping in file order.

        Args:
            what: the value's name in an error message.
            known: the only keys allowed; None allows any.

        Raises:
            ConfigError: not a mapping (null included), or a key that is not known.
        """
        if not isinstance(self.value, dict):
            raise self.error(f"{what} must be a mapping (key: value), not {self.describe()}")
        names = None if known is None else list(known)
        for key, entry in self.value.items():
            if names is not None and key not in names:
                raise entry.error(f"{what} has no key {key!r}: {nearest(key, names)}")
        return self.value

    def items(self, what: str = "this") -> list[Located]:
        """The items of a list.

        Raises:
            ConfigError: not a list.
        """
        if not isinstance(self.value, list):
            raise self.error(f"{what} must be a list [a, b, ...], not {self.describe()}")
        return self.value

    def text(self, what: str = "this") -> str:
        """A text of at least one character.

        Raises:
            ConfigError: anything else; a number or a yes/no word has to be quoted.
        """
        if not isinstance(self.value, str) or not self.value:
            raise self.error(f"{what} must be a text, not {self.describe()}")
        return self.value

    def number(self, what: str = "this") -> int | float:
        """An int or a float, as it is written; true and false are no numbers.

        Raises:
            ConfigError: anything else.
        """
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.error(f"{what} must be a number, not {self.describe()}")
        return self.value

    def at(self, *keys: str) -> Located:
        """The value under a path of mapping keys.

        Raises:
            KeyError: there is nothing there.
        """
        here = self
        for key in keys:
            if not isinstance(here.value, dict) or key not in here.value:
                raise KeyError(keys)
            here = here.value[key]
        return here

    def plain(self) -> Plain:
        """The bare value, all the way down."""
        if isinstance(self.value, dict):
            return {key: entry.plain() for key, entry in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value

    def describe(self) -> str:
        """The value in a few words for an error message."""
        if isinstance(self.value, (dict, list)):
            kind = "mapping" if isinstance(self.value, dict) else "list"
            return f"a {kind}" if self.value else f"an empty {kind}"
        if isinstance(self.value, str):
            return repr(self.value) if len(self.value) <= 40 else repr(self.value[:37] + "...")
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return "nothing" if self.value is None else str(self.value)


def read_yaml(path: Path, error: type[ConfigError] = ConfigError) -> Located:
    """The located tree of a file; its root holds None where the file holds nothing.

    Raises:
        ConfigError: of the type ``error``, in one sentence: there is no such file, it cannot be
            read, or it is not the YAML described above.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise error(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise error(f"{path} is a directory, not a YAML file") from None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise error(f"{path} cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise error(f"{path} is larger than {MAX_BYTES // 1_000_000} MB, so not a settings file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error(f"{path} is not a text file in UTF-8") from None
    return parse_yaml(text, str(path), error)


def parse_yaml(text: str, file: str, error: type[ConfigError] = ConfigError) -> Located:
    """As ``read_yaml``, from text; ``file`` is the name used in errors."""
    try:
        node = yaml.compose(text, Loader=_Loader)
        return _Tree(file, error).located(node, 1)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        where = f", line {mark.line + 1}" if mark else ""
        reason = problem.problem or "it cannot be read"
        if reason.startswith("but "):
            reason = f"{problem.context} {reason}"
        raise error(f"{file}{where}: not valid YAML: {reason}") from None
    except yaml.reader.ReaderError as problem:
        line = text.count("\n", 0, problem.position) + 1
        code = f"U+{int(problem.character):04X}"
        raise error(f"{file}, line {line}: the character {code} is not text") from None
    except RecursionError:
        raise error(f"{file}: nested too deeply") from None


class _Loader(yaml.SafeLoader):
    """Composes nodes without aliases, which can make a small file endless."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            problem = "aliases (*name) are not accepted, write the value out"
            raise yaml.composer.ComposerError(None, None, problem, mark)
        return super().compose_node(parent, index)


@dataclass(frozen=True, slots=True)
class _Tree:
    """Turns YAML nodes into located values."""

    file: str
    error_type: type[ConfigError]

    def located(self, node: yaml.Node | None, line: int) -> Located:
        if isinstance(node, yaml.MappingNode):
            return self._at(line, dict(self._entries(node)))
        if isinstance(node, yaml.SequenceNode):
            return self._at(line, [self.located(n, _line(n)) for n in node.value])
        return self._at(line, None if node is None else self._scalar(node))

    def _entries(self, node: yaml.MappingNode) -> Iterator[tuple[str, Located]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = _line(key_node)
            here = self._at(line, None)
            if not isinstance(key_node, yaml.ScalarNode):
                raise here.error("a key must be a word")
            key = key_node.value
            if key_node.tag != f"{_TAG}str":
                raise here.error(_misread(f"the key {key!r}", key_node))
            if key in seen:
                raise here.error(f"{key!r} is given twice, first on line {seen[key]}")
            seen[key] = line
            yield key, self.located(value_node, line)

    def _scalar(self, node: yaml.Node) -> Scalar:
        try:
            value: object = yaml.SafeLoader("").construct_object(node)
        except (yaml.YAMLError, ValueError):
            value = ...
        if value is None or isinstance(value, (str, int, float)):
            return value
        here = self._at(_line(node), str(node.value))
        raise here.error(_misread(here.describe(), node))

    def _at(self, line: int, value: Scalar | list[Located] | dict[str, Located]) -> Located:
        return Located(value, self.file, line, self.error_type)


def _misread(what: str, node: yaml.Node) -> str:
    return f"YAML reads {what} as {node.tag.removeprefix(_TAG)}: put it in quotes"


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
