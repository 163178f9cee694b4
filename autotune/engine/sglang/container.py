"""``docker run``: where the image stands, and which port leads into the container."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import PurePath

_RUNTIMES = frozenset({"docker", "podman", "nerdctl"})
_ALONE = re.compile(
    r"-[ditPq]+|--(?:detach|init|interactive|no-healthcheck|oom-kill-disable|privileged|"
    r"publish-all|quiet|read-only|rm|sig-proxy|tty|replace|rmi)"
)
"""Options of ``docker run`` that take no word after them."""
_MAPPING = re.compile(r"(?P<address>(?:\[[^]]*\]|[^:]*):)?(?P<outer>\d*):(?P<inner>\d+)(?:/tcp)?")


def image_index(argv: Sequence[str]) -> int | None:
    """Where the image stands in a command that runs a container; None for other commands."""
    at = _run_index(argv)
    if at is None:
        return None
    at += 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 1 if "=" in argv[at] or _ALONE.fullmatch(argv[at]) else 2
    return at if at < len(argv) else None


def is_bridged(argv: Sequence[str]) -> bool:
    """Whether the server sits in a container with a network of its own."""
    image = image_index(argv)
    if image is None:
        return False
    options = argv[:image]
    joined = ("--network=host", "--net=host")
    pairs = itertools.pairwise(options)
    return not any(word in joined for word in options) and not any(
        word in ("--network", "--net") and value == "host" for word, value in pairs
    )


def published(argv: Sequence[str], port: int, inner: int) -> list[str]:
    """The command with ``port`` outside leading to ``port`` inside.

    Args:
        inner: the port inside to which the command publishes until now.
    """
    words, image = list(argv), image_index(argv)
    for i in range(image or 0):
        option, joined, value = words[i].partition("=")
        if option not in ("-p", "--publish"):
            continue
        at = i if joined else i + 1
        found = _MAPPING.fullmatch(value if joined else words[at])
        if found and int(found["inner"]) == inner:
            mapping = f"{found['address'] or ''}{port}:{port}"
            words[at] = f"{option}={mapping}" if joined else mapping
            return words
    run = _run_index(argv)
    assert run is not None, "only a command that runs a container publishes ports"
    return [*words[: run + 1], "-p", f"127.0.0.1:{port}:{port}", *words[run + 1 :]]


def mounted(argv: Sequence[str], path: str) -> list[str]:
    """A command that runs a container, in which a file of the machine is seen under its name."""
    run = _run_index(argv)
    if run is None:
        return list(argv)
    return [*argv[: run + 1], "-v", f"{path}:{path}:ro", *argv[run + 1 :]]


def _run_index(argv: Sequence[str]) -> int | None:
    for i, word in enumerate(argv[:-1]):
        if PurePath(word).name in _RUNTIMES:
            rest = argv[i + 1 : i + 3]
            if rest[0] == "run":
                return i + 1
            if tuple(rest) == ("container", "run"):
                return i + 2
    return None
