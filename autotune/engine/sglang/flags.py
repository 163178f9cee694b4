"""How SGLang spells its flags, and the type of each value.

Only flags that a study searches, reads or must hide stand in the table. Any other flag is written
as ``--name-with-dashes`` and keeps the type of the value it is given. How a release spells a flag
is in ``versions``; which combinations are legal does not belong here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from autotune.core.trial import FlagValue
from autotune.engine.sglang.versions import SPELLINGS, Version, why_missing
from autotune.errors import UsageError

Kind = Literal["int", "float", "str", "switch", "unknown"]


@dataclass(frozen=True, slots=True)
class FlagSpec:
    """One flag of SGLang's command line.

    Attributes:
        name: canonical name, with underscores.
        kind: type of the value; a ``switch`` has none; ``unknown`` is not in the table.
        spellings: full spellings; the first is written where the command has none yet.
        shortest: shortest prefix of the first spelling that argparse takes for this flag.
    """

    name: str
    kind: Kind
    spellings: tuple[str, ...]
    shortest: str

    def is_spelled(self, word: str) -> bool:
        """True where argparse would read ``word`` (no ``=value``) as this flag."""
        return word in self.spellings or (
            word.startswith(self.shortest) and self.spellings[0].startswith(word)
        )

    def value_of(self, text: str) -> FlagValue:
        """The typed value of a word of the command line.

        Raises:
            UsageError: the word is no number where one is needed.
        """
        try:
            match self.kind:
                case "int":
                    return int(text)
                case "float":
                    return float(text)
                case "unknown":
                    return _guess(text)
                case _:
                    return text
        except ValueError:
            wanted = "a whole number" if self.kind == "int" else "a number"
            raise UsageError(f"{self.spellings[0]} needs {wanted}, not {text!r}") from None


def spec_of(name: str, version: Version | None = None) -> FlagSpec:
    """The flag with this canonical name, as a release spells it; any name of a flag finds it.

    Args:
        version: of SGLang; None: the newest.
    """
    spelling = "--" + name.replace("_", "-")
    known = _BY_SPELLING.get(spelling)
    if known is None:
        known = FlagSpec(name, "unknown", (spelling,), spelling)
    canonical = _CANONICAL.get(spelling, known.name)
    written = [each.text for each in SPELLINGS.get(canonical, ()) if each.is_in(version)]
    every = [*written, *(each.text for each in SPELLINGS.get(canonical, ())), *known.spellings]
    spellings = tuple(dict.fromkeys(every))
    shortest = known.shortest if spellings[0] == known.spellings[0] else spellings[0]
    return replace(known, name=name, spellings=spellings, shortest=shortest)


def check_has(name: str, version: Version | None) -> None:
    """Refuses a flag that a release does not take.

    Raises:
        UsageError: it came later, or is gone; with the release.
    """
    reason = why_missing(_CANONICAL.get("--" + name.replace("_", "-"), name), version)
    if reason is not None:
        raise UsageError(reason, hint="leave it out of the space, or use another release of SGLang")


def is_written(spelling: str, name: str, version: Version) -> bool:
    """Whether a release still takes this spelling of a flag."""
    canonical = _CANONICAL.get(spelling, name)
    known = {each.text: each for each in SPELLINGS.get(canonical, ())}
    return spelling not in known or known[spelling].is_in(version)


def known_flags() -> tuple[FlagSpec, ...]:
    """The table."""
    return _TABLE


def secret_flags() -> tuple[FlagSpec, ...]:
    """Flags whose value must reach no file."""
    return _SECRETS


def _guess(text: str) -> FlagValue:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?(\d+\.\d*|\.\d+|\d+(\.\d*)?e-?\d+)", text):
        return float(text)
    return text


def _flag(kind: Kind, spelling: str, *others: str, short: str = "") -> FlagSpec:
    name = spelling.removeprefix("--").replace("-", "_")
    return FlagSpec(name, kind, (spelling, *others), short or spelling)


# Shortest prefixes were computed from the usage text of SGLang 0.5.23.
_SECRETS = (
    _flag("str", "--api-key", short="--ap"),
    _flag("str", "--admin-api-key", short="--ad"),
    _flag("str", "--ssl-keyfile-password", short="--ssl-keyfile-"),
    _flag("str", "--watermark-key", short="--watermark-k"),
    _flag("str", "--watermark-key-b"),
    _flag("str", "--hf-token"),
)

_TABLE = (
    _flag("int", "--speculative-num-steps", short="--speculative-num-s"),
    _flag("int", "--speculative-eagle-topk", short="--speculative-ea"),
    _flag("int", "--speculative-num-draft-tokens", short="--speculative-num-d"),
    _flag("float", "--mem-fraction-static", short="--mem"),
    _flag("str", "--speculative-algorithm", short="--speculative-al"),
    _flag(
        "str",
        "--speculative-draft-model-path",
        "--speculative-draft-model",
        short="--speculative-draft-model-p",
    ),
    _flag("str", "--speculative-draft-model-quantization", short="--speculative-draft-model-q"),
    _flag("str", "--speculative-draft-attention-backend", short="--speculative-draft-a"),
    _flag("str", "--speculative-attention-mode", short="--speculative-at"),
    _flag("str", "--speculative-token-map", short="--speculative-t"),
    _flag(
        "float", "--speculative-accept-threshold-single", short="--speculative-accept-threshold-s"
    ),
    _flag("float", "--speculative-accept-threshold-acc", short="--speculative-accept-threshold-a"),
    _flag("switch", "--speculative-adaptive"),
    _flag("str", "--speculative-adaptive-config", short="--speculative-adaptive-"),
    _flag("switch", "--speculative-use-rejection-sampling", short="--speculative-use-r"),
    _flag("int", "--max-running-requests", short="--max-r"),
    _flag("int", "--max-total-tokens", short="--max-t"),
    _flag("int", "--max-prefill-tokens", short="--max-p"),
    _flag("int", "--chunked-prefill-size", short="--chu"),
    _flag("int", "--prefill-max-requests", short="--prefill-m"),
    _flag("int", "--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"),
    _flag("float", "--schedule-conservativeness", short="--schedule-c"),
    _flag("str", "--schedule-policy", short="--schedule-p"),
    _flag("str", "--radix-eviction-policy"),
    _flag("int", "--page-size", short="--page-"),
    _flag("str", "--attention-backend", short="--atte"),
    _flag("str", "--prefill-attention-backend", short="--prefill-a"),
    _flag("str", "--decode-attention-backend", short="--decode-a"),
    _flag("str", "--kv-cache-dtype", short="--kv-cac"),
    _flag("str", "--moe-runner-backend"),
    _flag("str", "--mamba-radix-cache-strategy", "--mamba-scheduler-strategy"),
    _flag("float", "--mamba-full-memory-ratio"),
    _flag("int", "--max-mamba-cache-size"),
    _flag("int", "--stream-interval"),
    _flag("int", "--scheduler-recv-interval"),
    _flag("int", "--decode-log-interval", short="--decode-l"),
    _flag("switch", "--disable-overlap-schedule", short="--disable-ov"),
    _flag("switch", "--disable-radix-cache"),
    _flag("switch", "--disable-cuda-graph"),
    _flag("switch", "--disable-custom-all-reduce"),
    _flag("switch", "--enable-mixed-chunk"),
    _flag("switch", "--enable-torch-compile"),
    _flag("switch", "--enable-flashinfer-allreduce-fusion"),
    _flag("switch", "--enable-fused-moe-sum-all-reduce"),
    _flag("switch", "--enable-linear-replayssm-spec"),
    _flag("switch", "--enable-dp-attention"),
    _flag("switch", "--enable-metrics"),
    _flag("switch", "--enable-cache-report"),
    _flag("int", "--tp-size", "--tensor-parallel-size", short="--tp"),
    _flag("int", "--dp-size", "--data-parallel-size", short="--dp"),
    _flag("int", "--ep-size", "--expert-parallel-size", "--ep", short="--ep-s"),
    _flag("int", "--pp-size", "--pipeline-parallel-size", short="--pp-s"),
    _flag("str", "--model-path", "--model", short="--model-p"),
    _flag("str", "--served-model-name", short="--se"),
    _flag("int", "--context-length", short="--cont"),
    _flag("int", "--random-seed", short="--ran"),
    _flag("str", "--log-level"),
    _flag("str", "--host", short="--ho"),
    _flag("int", "--port", short="--po"),
    *_SECRETS,
)

_BY_SPELLING = {spelling: flag for flag in _TABLE for spelling in flag.spellings}
_CANONICAL = {each.text: name for name, every in SPELLINGS.items() for each in every}
