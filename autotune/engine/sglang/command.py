"""The launch command: the words a user would type, and how a trial changes a few of them.

Words are read as SGLang's argparse reads them: full and short spellings, unambiguous prefixes,
``--flag value`` and ``--flag=value``, the last of repeated flags, after those of ``--config FILE``.
A word that is not asked about keeps its place and its form. SGLang takes no positional words, so
every word after a flag and before the next ``--`` is a value of that flag.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

from autotune.core.trial import FlagValue
from autotune.engine.sglang.config_file import config_path, without_config, words_of
from autotune.engine.sglang.container import image_index, is_bridged, published
from autotune.engine.sglang.flags import (
    FlagSpec,
    check_has,
    is_written,
    known_flags,
    secret_flags,
    spec_of,
)
from autotune.engine.sglang.placement import FLAGS_HERE, PORT_HERE, Placement, rewritten
from autotune.engine.sglang.secret_words import MASK as MASK
from autotune.engine.sglang.secret_words import masked, names_in, secrets_in
from autotune.engine.sglang.shell import Edit
from autotune.engine.sglang.versions import Version
from autotune.errors import UsageError

LOCAL_HOST = "127.0.0.1"
EVERY_HOST = "0.0.0.0"
DEFAULT_PORT = 30000
"""SGLang's own (server_args.py, 0.4.5 to 0.5.23)."""

_ENVIRONMENT_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


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
        version: of the SGLang it starts, which decides how flags are spelled; None: not known.
        file_text: what its ``--config`` file holds on the machine of the server; None: that is this
            machine, whose file is read when it is needed.
    """

    argv: tuple[str, ...]
    version: Version | None = field(default=None, compare=False)
    file_text: str | None = field(default=None, compare=False, repr=False)

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
        if _ENVIRONMENT_WORD.fullmatch(words[0]):
            words = ("env", *words)  # a shell would set it; `exec` takes it for a program
        for word in Placement.of(words).words:
            if FLAGS_HERE in word and word != FLAGS_HERE:
                raise UsageError(f"{FLAGS_HERE} must be a word of its own, not part of {word!r}")
        return cls(words)

    def for_version(self, version: Version | str | None) -> LaunchCommand:
        """The command, whose flags are from now on written as this release writes them.

        Text that is no version counts as a version that nobody knows.
        """
        known = Version.parse(version) if isinstance(version, str) else version
        return replace(self, version=known)

    def words_for(self, flags: Mapping[str, FlagValue]) -> tuple[str, ...]:
        """These flags alone, as this release writes them.

        Raises:
            UsageError: this release of SGLang lacks a flag.
        """
        return LaunchCommand(("x",), self.version).with_flags(flags).argv[1:]

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

    @property
    def shows_flags(self) -> bool:
        """Whether these words are all that the server gets: no script of the user adds any."""
        placement = Placement.of(self.argv)
        return placement.is_sure and FLAGS_HERE not in placement.words

    @property
    def config_file(self) -> str | None:
        """SGLang's own ``--config FILE``.

        None also where the word may mean something else (a script of the user), and inside a
        container, whose files are not those of this machine.
        """
        placement = Placement.of(self.argv)
        if not self.shows_flags or image_index(self.argv) is not None:
            return None
        path = config_path(placement.words[placement.first :])
        # A script may have gone elsewhere before, and may name the file by a variable.
        is_certain = placement.words == self.argv or (path or "").startswith("/")
        return path if is_certain and "$" not in (path or "") else None

    def variable(self, name: str) -> str | None:
        """The value that the command itself gives an environment variable of the server."""
        form = re.compile(rf"""(?<![A-Za-z0-9_]){re.escape(name)}=["']?([^\s"';&|]*)""")
        found = [match[1] for word in self.argv for match in form.finditer(word)]
        return found[-1] if found else None

    def flags(self, names: Iterable[str] | None = None) -> dict[str, FlagValue]:
        """Typed values of the flags that the command itself sets, ``--config`` file included.

        Args:
            names: canonical names to look for; None looks for all flags of the table except
                secrets.

        Raises:
            UsageError: a flag lacks its value or has one of the wrong type, or the file of
                ``--config`` cannot be read.
        """
        if names is None:
            secret = {spec.name for spec in secret_flags()}
            names = [spec.name for spec in known_flags() if spec.name not in secret]
        found: dict[str, FlagValue] = {}
        from_file = self._words_of_file()
        for spec in (spec_of(name, self.version) for name in names):
            for place in [*_places(from_file, 0, spec), *self._places(spec)]:
                if PORT_HERE not in (place.text or ""):
                    found[spec.name] = _read(spec, place)
        return found

    def readable(self, names: Iterable[str]) -> dict[str, FlagValue]:
        """As ``flags``, without those whose value is not known here, as a variable of a script."""
        found: dict[str, FlagValue] = {}
        for name in names:
            with suppress(UsageError):
                found |= self.flags((name,))
        return found

    def with_flags(self, flags: Mapping[str, FlagValue]) -> LaunchCommand:
        """The command with these values: replaced wherever they stand, else appended.

        ``True`` puts a switch in, ``False`` takes a flag out, with its value if it has one.

        Raises:
            UsageError: this release of SGLang lacks a flag, or the file of ``--config`` sets one
                that the command line cannot take back.
        """
        command = self
        for name, value in flags.items():
            command = command._with_flag(name, value)
        return command

    def _with_flag(self, name: str, value: FlagValue) -> LaunchCommand:
        spec = spec_of(name, self.version)
        if value is False:
            self._check_removable(spec)
        else:
            check_has(name, self.version)
        edits: list[Edit] = []
        for place in self._places(spec):
            if self.version and not is_written(place.spelling, name, self.version):
                place = replace(place, spelling=spec.spellings[0])
            edits.append((place.start, place.end, place.rewritten(value)))
        if not edits and value is not False:
            words = _Place(0, 0, spec.spellings[0], None, False).rewritten(value)
            return self.with_words(words)
        return replace(self, argv=rewritten(self.argv, edits))

    def without(self, names: Iterable[str]) -> LaunchCommand:
        """The command without these flags and their values."""
        return self.with_flags(dict.fromkeys(names, False))

    def speculation(self) -> tuple[str, ...]:
        """Names of those of its flags without which it does not speculate and knows of no draft.

        Raises:
            UsageError: the file of ``--config`` cannot be read.
        """
        words = (*self._words_of_file(), *Placement.of(self.argv).words)
        specs = [spec for spec in known_flags() if _is_speculative(spec.name)]
        for word in words:
            head = word.partition("=")[0]
            name = head.removeprefix("--").replace("-", "_")
            if _is_speculative(name) and not any(spec.is_spelled(head) for spec in specs):
                specs.append(spec_of(name, self.version))
        return tuple(spec.name for spec in specs if any(_places(words, 0, spec)))

    def with_port(self, port: int) -> LaunchCommand:
        """The command on this port; an address given by the user stays.

        ``{port}`` is filled in where it stands. Else ``--port`` is set, and a container that has a
        network of its own publishes it.
        """
        if any(PORT_HERE in word for word in self.argv):
            filled = tuple(word.replace(PORT_HERE, str(port)) for word in self.argv)
            return replace(self, argv=filled)
        bridged = is_bridged(self.argv)
        command = self
        if bridged:
            inner = self.flags(("port",)).get("port", DEFAULT_PORT)
            command = replace(self, argv=tuple(published(self.argv, port, int(inner))))
        command = command.with_flags({"port": port})
        host = EVERY_HOST if bridged else LOCAL_HOST
        return command if command.host else command.with_flags({"host": host})

    def with_words(self, words: Sequence[str]) -> LaunchCommand:
        """The command with more words of the server: at ``{flags}``, else behind the last one."""
        end = Placement.of(self.argv).end
        return replace(self, argv=rewritten(self.argv, [(end, end, words)]))

    def filled(self) -> LaunchCommand:
        """The command as it can be run: no ``{flags}``, and SGLang's own port for ``{port}``."""
        if any(PORT_HERE in word for word in self.argv):
            return self.with_port(DEFAULT_PORT).filled()
        words = Placement.of(self.argv).words
        marks = [(i, i + 1, ()) for i, word in enumerate(words) if word == FLAGS_HERE]
        return replace(self, argv=rewritten(self.argv, marks))

    def server_words(self) -> tuple[str, ...]:
        """The server's own words alone, those of the file of ``--config`` first.

        Without the program, its wrappers and the option ``--config`` itself: a server that reads
        no such file gets the same flags.

        Raises:
            UsageError: the file of ``--config`` cannot be read.
        """
        placement = Placement.of(self.filled().argv)
        words = placement.words[placement.first :]
        flags = words[next((i for i, word in enumerate(words) if _is_flag(word)), len(words)) :]
        return (*self._words_of_file(), *without_config(flags))

    def secrets(self) -> tuple[str, ...]:
        """Values that must reach no file, longest first."""
        from_file = self._words_of_file(strict=False)
        found = {
            place.text
            for spec in secret_flags()
            for place in [*_places(from_file, 0, spec), *self._places(spec)]
            if place.text
        }
        for word in self.argv:
            found |= secrets_in(word)
        return tuple(sorted(found - {MASK}, key=lambda value: (-len(value), value)))

    def exposed(self) -> tuple[str, ...]:
        """Names of the secrets that stand in its words, where a list of processes shows them."""
        given = [
            spec.spellings[0]
            for spec in secret_flags()
            if any(place.text not in (None, MASK) for place in self._places(spec))
        ]
        return tuple(dict.fromkeys([*given, *(n for word in self.argv for n in names_in(word))]))

    def redacted(self) -> LaunchCommand:
        """The command with every secret masked, fit for a file."""
        command = replace(self, version=None)
        for spec in secret_flags():
            if any(place.text for place in command._places(spec)):
                command = command.with_flags({spec.name: MASK})
        return replace(self, argv=tuple(masked(word) for word in command.argv))

    def shell(self, *, multiline: bool = True) -> str:
        """The command quoted for a POSIX shell, without a line end.

        Args:
            multiline: one flag per line, joined with backslashes.
        """
        placement = Placement.of(self.argv)
        first = placement.first if placement.words == self.argv else len(self.argv)
        lines: list[list[str]] = [[]]
        for i, word in enumerate(self.argv):
            if i >= first and word.startswith("--"):
                lines.append([])
            lines[-1].append(shlex.quote(word))
        separator = " \\\n  " if multiline else " "
        return separator.join(" ".join(line) for line in lines if line)

    def _words_of_file(self, *, strict: bool = True) -> tuple[str, ...]:
        path = self.config_file
        if path is None:
            return ()
        try:
            return words_of(path, self.file_text)
        except UsageError:
            if strict:
                raise
            return ()

    def _check_removable(self, spec: FlagSpec) -> None:
        """A flag of the file can be overridden by the command line, but not taken out by it."""
        if any(_places(self._words_of_file(strict=False), 0, spec)):
            raise UsageError(
                f"{self.config_file} sets {spec.spellings[0]}, and no word of a command line can "
                "take that back",
                hint="remove it from that file",
            )

    def _places(self, spec: FlagSpec) -> Iterator[_Place]:
        placement = Placement.of(self.argv)
        return _places(placement.words, placement.first, spec)


def _places(words: Sequence[str], first: int, spec: FlagSpec) -> Iterator[_Place]:
    for start in range(first, len(words)):
        head, joined, text = words[start].partition("=")
        if not head.startswith("--") or not spec.is_spelled(head):
            continue
        if joined:
            yield _Place(start, start + 1, head, text, True)
            continue
        end = start + 1
        most = {"switch": 0, "unknown": len(words)}.get(spec.kind, 1)
        while end < len(words) and end - start <= most and not _is_flag(words[end]):
            end += 1
        values = words[start + 1 : end]
        yield _Place(start, end, head, " ".join(values) if values else None, False)


def _is_speculative(name: str) -> bool:
    beside = ("enable_linear_replayssm_spec", "enable_multi_layer_eagle")
    return name.startswith("speculative_") or name in beside


def _read(spec: FlagSpec, place: _Place) -> FlagValue:
    if spec.kind == "switch":
        return True
    if place.text is None:
        if spec.kind == "unknown":
            return True
        raise UsageError(f"{place.spelling} in the launch command has no value")
    return spec.value_of(place.text)


def _is_flag(word: str) -> bool:
    """As argparse: a negative number is a value. The mark ``{flags}`` is none."""
    return re.match(r"--?[A-Za-z]", word) is not None or word in ("--", FLAGS_HERE)


def _split(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"the launch command is not valid shell: {error}") from error
