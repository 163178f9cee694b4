"""Varied text for the built-in workloads: prose, code, logs and JSON, all generated here.

Repetitive prompts inflate the accept length of a draft model, so nothing here is a template with
one hole: each paragraph draws its structure, its names and its numbers.
"""

from __future__ import annotations

import json
from random import Random

_SUBJECTS = """
scheduler tokenizer gateway ledger importer exporter renderer planner router resolver registry
collector indexer notifier throttler validator serializer migrator archiver sampler profiler
balancer watcher mirror broker parser compiler linker loader decoder encoder cache session invoice
payment shipment catalog profile token upload report webhook
""".split()
_ACTIONS = """
retries drops duplicates truncates reorders delays rejects overwrites leaks ignores rounds escapes
splits merges hashes compresses polls blocks flushes expires renames locks
""".split()
_OBJECTS = """
requests rows events messages headers timestamps batches chunks keys offsets snapshots locks rates
pages cursors checksums permissions currencies addresses intervals weights filenames
""".split()
_CONDITIONS = (
    "when two workers start within the same second",
    "after the clock moves back an hour",
    "if the input holds a byte order mark",
    "under load, roughly once in four thousand calls",
    "as soon as the disk is more than ninety percent full",
    "only on machines with a different locale",
    "whenever the upstream answers with an empty body",
    "once the connection pool is exhausted",
    "for identifiers longer than sixty-three characters",
    "if a transaction is rolled back halfway",
    "since the dependency was upgraded last Thursday",
    "when the feature flag is read before it is set",
)
_REQUESTS = (
    "Find the cause and propose the smallest change that fixes it.",
    "Explain what goes wrong step by step, then write the patch.",
    "Write a regression test first, then make it pass.",
    "Compare two ways of solving this and pick one, with reasons.",
    "Refactor the function so that the edge case disappears, and keep the interface.",
    "Tell me which file to open next and what to look for in it.",
    "Summarise what this output says and decide on the next command.",
)
_LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "WARNING", "ERROR")
_TYPES = ("int", "str", "float", "bytes", "bool", "list[str]", "dict[str, int]", "Path")


def identifier(rng: Random) -> str:
    """A plausible snake_case name."""
    parts = [rng.choice(_SUBJECTS), rng.choice(_OBJECTS).rstrip("s")]
    if rng.random() < 0.4:
        parts.insert(0, rng.choice(("pending", "stale", "merged", "raw", "shared", "next")))
    return "_".join(parts)


def prose(rng: Random, n_sentences: int) -> str:
    """Bug-report prose."""
    sentences = []
    for _ in range(n_sentences):
        subject, action = rng.choice(_SUBJECTS), rng.choice(_ACTIONS)
        what, condition = rng.choice(_OBJECTS), rng.choice(_CONDITIONS)
        shape = rng.randrange(4)
        if shape == 0:
            sentences.append(f"The {subject} {action} {what} {condition}.")
        elif shape == 1:
            sentences.append(
                f"{condition[0].upper()}{condition[1:]}, {what} from the {subject} end up in "
                f"`{identifier(rng)}`, and nobody {action.rstrip('s')}s them."
            )
        elif shape == 2:
            sentences.append(
                f"We measured {rng.randint(3, 970)} affected {what} in {rng.randint(2, 48)} hours; "
                f"the {subject} is the common part."
            )
        else:
            sentences.append(
                f"I suspect `{identifier(rng)}`: it {action} {what} before the "
                f"{rng.choice(_SUBJECTS)} has seen them."
            )
    return " ".join(sentences)


def request(rng: Random) -> str:
    """What the user wants done."""
    return rng.choice(_REQUESTS)


def code(rng: Random, n_functions: int) -> str:
    """Python functions that look alike only as much as real ones do."""
    blocks = []
    for _ in range(n_functions):
        name, argument, other = identifier(rng), identifier(rng), identifier(rng)
        kind, result = rng.choice(_TYPES), rng.choice(_TYPES)
        lines = [f"def {name}({argument}: {kind}, limit: int = {rng.randint(1, 512)}) -> {result}:"]
        if rng.random() < 0.6:
            lines.append(f'    """{prose(rng, 1)}"""')
        for _ in range(rng.randint(2, 6)):
            lines.append(_statement(rng, argument, other))
        lines.append(f"    return {rng.choice((other, argument, 'None', f'{other}[:limit]'))}")
        blocks.append("\n".join(lines))
    return "\n\n\n".join(blocks)


def _statement(rng: Random, argument: str, other: str) -> str:
    field = identifier(rng)
    return rng.choice(
        (
            f"    {other} = [{field} for {field} in {argument} if {field} is not None]",
            f"    if len({argument}) > limit:\n        raise ValueError(f'{field}: {{limit}}')",
            f"    {other} = sorted({argument}, key=lambda item: item.{field}, reverse=True)",
            f"    with lock_{field}:\n        {field}s.append({argument})",
            f"    {other} = {argument}.get('{field}', {rng.randint(0, 99)})",
            f"    for attempt in range({rng.randint(2, 9)}):\n        {field} = send({argument})",
            f"    {other} = {field}({argument}, timeout={rng.randint(1, 60)}.{rng.randint(0, 9)})",
            f"    logger.debug('%s took %.3f s', '{field}', clock() - started)",
            f"    assert {argument} != {rng.randint(0, 4096)}, '{rng.choice(_CONDITIONS)}'",
        )
    )


def log_lines(rng: Random, n_lines: int) -> str:
    """A server log."""
    second = rng.uniform(0, 86_000)
    lines = []
    for _ in range(n_lines):
        second += rng.expovariate(2.0)
        stamp = f"{int(second // 3600):02d}:{int(second // 60 % 60):02d}:{second % 60:06.3f}"
        lines.append(
            f"{stamp} {rng.choice(_LEVELS):7} {rng.choice(_SUBJECTS)}.{identifier(rng)} "
            f"{rng.choice(_ACTIONS)} {rng.choice(_OBJECTS)} id={rng.getrandbits(40):010x} "
            f"ms={rng.expovariate(0.02):.1f}"
        )
    return "\n".join(lines)


def tool_result(rng: Random, n_items: int) -> str:
    """A JSON document as a tool returns it."""
    items = [
        {
            "path": f"src/{rng.choice(_SUBJECTS)}/{identifier(rng)}.py",
            "line": rng.randint(1, 1400),
            "match": _statement(rng, identifier(rng), identifier(rng)).strip(),
            "score": round(rng.random(), 4),
        }
        for _ in range(n_items)
    ]
    status = rng.choice(("ok", "ok", "partial", "timeout"))
    return json.dumps({"status": status, "elapsed_ms": rng.randint(3, 9000), "items": items})
