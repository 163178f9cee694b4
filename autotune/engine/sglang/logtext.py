"""The server's own text in a line of a log: without what terminals and log collectors add."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

_PROGRESS = re.compile(r"^[^|]{0,200}?\d{1,3}%\|[^|]*\| *[\d.]+\w*/[\d.?]+\w* \[[^\]]*\]")
"""A bar of tqdm: another process may write its line right behind it, with no line break."""

_COLLECTORS = (
    # docker logs -t, kubectl logs --timestamps, and containerd's own files (stream and F or P).
    re.compile(r"\d{4}-\d\d-\d\dT[\d:]+(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?"),
    re.compile(r"\[pod/[\w.-]+/[\w.-]+\] ?"),  # kubectl logs --prefix
    re.compile(
        r"(?=[^ ]*[-\d])[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9.-]*(?::| \|)? "
    ),  # pod/container
    re.compile(r"[a-zA-Z0-9][\w.-]* +\| ?"),  # docker compose
    re.compile(r"[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S+ [\w./-]+(?:\[\d+\])?: "),  # syslog, journald
    re.compile(r"\((?:\w+ )?pid=\d+(?:, ip=[\d.]+)?\) ?"),  # Ray
    re.compile(r"\[rank\d+\]: ?(?!\[)"),  # torch prints the traceback of each rank so
    re.compile(r"\[\d+,\d+\]<std(?:out|err)>: ?"),  # mpirun
    re.compile(r" *\d{1,3}: "),  # srun -l
)
_MOST_PREFIXES = 4

_RANK = re.compile(r"^\[[\d :.,-]+((?: [A-Z]{2}\d+)+)\]")


def server_text(raw: str) -> Iterator[str]:
    """The lines that the server wrote, in one line of a log; none where it is empty.

    A line of a terminal holds several where carriage returns separate the states of a progress
    bar; of these all are told, because an error may stand behind any of them.
    """
    for part in _unwrapped(raw).splitlines() or [""]:
        text = _ANSI.sub("", part)
        text = _without_collectors(text).rstrip()
        if bar := _PROGRESS.match(text):
            text = text[bar.end() :].rstrip()
        if text:
            yield text


def rank_of(text: str) -> str:
    """The rank in the server's own prefix, as ``TP0`` or ``DP1 TP0``; empty where it has none."""
    match = _RANK.match(text)
    return match[1].strip() if match else ""


def _unwrapped(raw: str) -> str:
    """The text in an entry of docker's json-file driver; anything else as it is."""
    if not raw.startswith('{"') or '"log":' not in raw[:400] + raw[-400:]:
        return raw
    try:
        entry = json.loads(raw)
    except ValueError:
        return raw
    text = entry.get("log") if isinstance(entry, dict) else None
    return text if isinstance(text, str) else raw


def _without_collectors(text: str) -> str:
    for _ in range(_MOST_PREFIXES):
        match = next((found for each in _COLLECTORS if (found := each.match(text))), None)
        if match is None:
            break
        text = text[match.end() :]
    return text
