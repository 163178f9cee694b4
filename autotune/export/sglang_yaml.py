"""The file of SGLang's own ``--config``.

Source: utils/server_args_config_parser.py @0.5.23, and server_args_config_parser.py @0.5.3 to
0.5.15: each key becomes ``--key``, ``true`` a switch, a list several words, and all other values
``--key`` and one word; flags of some kinds are refused; only ``--config FILE`` as two words counts.
"""

from __future__ import annotations

import re

import yaml

from autotune.engine.sglang.flags import check_has, known_flags
from autotune.errors import UsageError
from autotune.export.recipe import Recipe
from autotune.export.words import Option, comments, options_of, server_words
from autotune.export.yaml_text import yaml_text

REFUSED = frozenset(
    {
        "dcp-replicate-q-proj", "disable-cuda-graph", "dllm-fdfo", "enable-dp-attention",
        "enable-decoder-swa-bounded-replay", "enable-dsa-fused-indexer",
        "enable-fused-qk-norm-rope", "enable-tf32-matmul", "enable-tp-lm-head-all-to-all",
        "experts-shared-outer-loras", "lora-paths", "lora-strict-loading", "mm-enable-dp-encoder",
        "ple-offload-embedding", "speculative-enable-w4a4-mxfp4-megamoe",
    }
)  # fmt: skip
"""Flags (and their ``--no-`` forms) that the merger of 0.5.23 does not take from a file."""

_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_SHELL_HINT = "--format shell can write it"


def sglang_yaml(recipe: Recipe) -> str:
    """The server's flags for ``--config FILE``.

    Raises:
        UsageError: the release reads no such file, or no file can hold a flag.
    """
    check_has("config", recipe.command.version)
    found: dict[str, object] = {}
    for option in options_of(server_words(recipe.command, "yaml")):
        key = _key(option)
        found.pop(key, None)  # of repeated flags the last one counts, in its place
        found[key] = _value(option)
    head = comments([*recipe.provenance, "use: python -m sglang.launch_server --config THIS_FILE"])
    return head + yaml_text(found)


def _key(option: Option) -> str:
    head = option.head
    if not re.match(r"--[A-Za-z]", head):
        raise UsageError(f"SGLang's --config file has no place for {head!r}", hint=_SHELL_HINT)
    if not option.values:  # a switch counts only under its full name
        head = next((s.spellings[0] for s in known_flags() if s.is_spelled(head)), head)
    key = head[2:]
    if key.removeprefix("no-") in REFUSED:
        raise UsageError(f"SGLang's --config file does not take --{key}", hint=_SHELL_HINT)
    return key


def _value(option: Option) -> object:
    for word in option.values:
        # argparse takes a word that starts with a dash for a flag, except behind "=".
        if word.startswith("-") and not _NUMBER.fullmatch(word):
            raise UsageError(
                f"SGLang's --config file cannot hold {word!r} for {option.head}: it would be "
                "taken for a flag",
                hint=_SHELL_HINT,
            )
    values = [_typed(word) for word in option.values]
    return True if not values else values[0] if len(values) == 1 else values


def _typed(word: str) -> object:
    """A number where that is written back as the same word, else text."""
    if not re.fullmatch(r"-?\d+(\.\d+)?", word):
        return word
    number = yaml.safe_load(word)
    return number if isinstance(number, int | float) and str(number) == word else word
