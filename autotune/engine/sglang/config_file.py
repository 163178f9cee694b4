"""SGLang's own ``--config FILE``: which words it adds to the command line.

Source: utils/server_args_config_parser.py @0.5.23, and server_args_config_parser.py from 0.5.3 on:
one file, as two words (``--config=FILE`` is not merged, without an error); each key of its mapping
becomes a flag *before* those of the command line, so that the command line wins.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from autotune.errors import UsageError

_OPTION = "--config"


def config_path(words: Sequence[str]) -> str | None:
    """The file that SGLang would merge into these words; None where there is none."""
    at = words.index(_OPTION) if _OPTION in words else len(words)
    return words[at + 1] if at + 1 < len(words) else None


def without_config(words: Sequence[str]) -> tuple[str, ...]:
    """The words without the option and its file."""
    at = words.index(_OPTION) if _OPTION in words else len(words)
    return (*words[:at], *words[at + 2 :])


def words_of(path: str, text: str | None = None) -> tuple[str, ...]:
    """The words a file stands for, in its order.

    Args:
        text: what the file holds, of another machine; None: it is read here.

    Raises:
        UsageError: it cannot be read, or SGLang would refuse it.
    """
    if Path(path).suffix.lower() not in (".yaml", ".yml"):
        raise UsageError(f"--config {path}: SGLang reads files that end in .yaml or .yml only")
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8") if text is None else text)
    except OSError as error:
        raise UsageError(f"--config {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path} is not valid YAML: {error}") from None
    if content is None:
        return ()
    if not isinstance(content, dict):
        raise UsageError(f"--config {path} must hold a mapping of flags to values")
    return tuple(word for key, value in content.items() for word in _words(str(key), value))


def _words(key: str, value: Any) -> list[str]:  # noqa: ANN401 (whatever YAML holds)
    # SGLang rejects underscores later; here both say which flag is meant.
    flag = "--" + key.replace("_", "-")
    if isinstance(value, bool):
        return [flag] if value else []
    if isinstance(value, list):
        return [flag, *map(str, value)] if value else []
    return [flag, json.dumps(value) if isinstance(value, dict) else str(value)]
