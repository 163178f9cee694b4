"""A workload from a file: one pass, a sample of its sessions, a part of them held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

import msgspec

from autotune.workload.fitting import fitted, fitted_lengths
from autotune.workload.lengths import CHARS_PER_TOK, LENGTH_ONLY, Corpus, LengthSession, Recorded
from autotune.workload.model import Session, Workload
from autotune.workload.readers import SessionFile

MAX_SESSIONS = 4_000
"""Sessions that are kept of a longer file, each with the same chance."""
MAX_SAMPLE_BYTES = 256 * 2**20
"""Memory that they may take; of long sessions fewer are kept."""
HELD_OUT_FRAC = 0.3
"""Share of the sessions that no search trial sees."""
_REFERENCE_OUTPUT_TOK = 216
"""Median answer of recorded coding sessions, where a file tells no length."""
_TEMPERATURE = 0.6
_AGREE_FRAC = 0.9
"""Share of the sessions that must name one temperature for it to be the workload's."""


def workload_from(path: Path, *, seed: int = 0, format_name: str | None = None) -> Workload:
    """The sessions of a file, in an order that depends on the seed alone.

    Whatever the length of the file, at most ``MAX_SESSIONS`` are kept. The reference turn is the
    median recorded answer, of 216 tokens where none is recorded. The temperature is the one that
    nine in ten sessions name, else 0.6; a session that names its own is sent with that. Arrival
    times are compressed by the share of the sessions that is played, so that a replay has the
    recorded rate.

    Raises:
        WorkloadError: the file cannot be read, or a row is bad.
    """
    file = SessionFile(path, format_name)
    sample = draw(file, seed)
    Random(f"order:{seed}").shuffle(sample.sessions)
    n_kept = len(sample.sessions)
    n_held_out = round(HELD_OUT_FRAC * n_kept) if n_kept > 1 else 0
    corpus = Corpus(seed, path.name)

    def share(number: int) -> float:
        n_played = n_kept - n_held_out if number < n_kept - n_held_out else n_held_out
        return n_played / sample.n_seen

    def session(number: int, context_tok: int | None) -> Session:
        recorded = _sooner(sample.sessions[number], share(number))
        if isinstance(recorded, LengthSession):
            return corpus.session(fitted_lengths(recorded, context_tok))
        return fitted(recorded, context_tok)

    return Workload(
        path.name,
        f"{file.format.name} file",
        _reference_output_tok(sample.sessions),
        _temperature(sample.sessions),
        session,
        n_sessions=n_kept - n_held_out,
        n_held_out=n_held_out,
        starts_s=_starts_s(sample.sessions, share),
        notes=_notes(sample, file.n_skipped),
    )


def _starts_s(sessions: Sequence[Recorded], share: Callable[[int], float]) -> tuple[float, ...]:
    """When each session is played; empty where one has no time."""
    starts = [_sooner(session, share(n)).start_s for n, session in enumerate(sessions)]
    known = tuple(start_s for start_s in starts if start_s is not None)
    return known if len(known) == len(starts) else ()


def _sooner(session: Recorded, share: float) -> Recorded:
    """The session at this share of the time since the start of the trace."""
    if session.start_s is None:
        return session
    return msgspec.structs.replace(session, start_s=session.start_s * share)


@dataclass(frozen=True, slots=True)
class Sample:
    """Sessions of a file, each with the same chance; ``n_seen`` is how many it has."""

    sessions: list[Recorded]
    n_seen: int


def draw(
    sessions: Iterable[Recorded],
    seed: int,
    *,
    max_sessions: int = MAX_SESSIONS,
    max_bytes: int = MAX_SAMPLE_BYTES,
) -> Sample:
    """A sample in bounded memory (reservoir sampling).

    Where the kept sessions take too much memory, a quarter of them is dropped by chance and the
    rest of the file competes for the places that are left: still the same chance for each.
    """
    rng = Random(f"sample:{seed}")
    kept: list[Recorded] = []
    sizes: list[int] = []
    places, n_seen, held = max_sessions, 0, 0
    for session in sessions:
        n_seen += 1
        if len(kept) < places:
            kept.append(session)
            sizes.append(size := _bytes_of(session))
            held += size
        elif (place := rng.randrange(n_seen)) < places:
            size = _bytes_of(session)
            held += size - sizes[place]
            kept[place], sizes[place] = session, size
        while held > max_bytes and len(kept) > 1:
            places = max(1, len(kept) * 3 // 4)
            order = rng.sample(range(len(kept)), places)
            kept, sizes = [kept[i] for i in order], [sizes[i] for i in order]
            held = sum(sizes)
    return Sample(kept, n_seen)


def _bytes_of(session: Recorded) -> int:
    """About what a session takes in memory."""
    if isinstance(session, LengthSession):
        return 200 + sum(250 + 8 * len(request.blocks) for request in session.requests)
    return (
        500
        + len(str(session.extra))
        + sum(
            300 + len(turn.answer or "") + sum(len(str(message)) for message in turn.messages)
            for turn in session.turns
        )
    )


def output_lengths(session: Recorded) -> Iterator[float]:
    """Lengths of the recorded answers: as the file tells them, or estimates from their text."""
    if isinstance(session, LengthSession):
        yield from (request.n_output_tok for request in session.requests)
        return
    for turn in session.turns:
        if turn.n_output_tok is not None:
            yield turn.n_output_tok
        elif turn.answer:
            yield len(turn.answer) / CHARS_PER_TOK


def _reference_output_tok(sessions: Iterable[Recorded]) -> int:
    lengths = [n for session in sessions for n in output_lengths(session)]
    return max(1, round(median(lengths))) if lengths else _REFERENCE_OUTPUT_TOK


def temperature_of(session: Recorded) -> float | None:
    """The sampling temperature that the rows name."""
    if isinstance(session, LengthSession):
        return None
    value = session.extra.get("temperature")
    return float(value) if isinstance(value, int | float) else None


def _temperature(sessions: list[Recorded]) -> float:
    named = Counter(t for t in map(temperature_of, sessions) if t is not None)
    if not named:
        return _TEMPERATURE
    value, count = named.most_common(1)[0]
    return value if count >= _AGREE_FRAC * len(sessions) else _TEMPERATURE


def _notes(sample: Sample, n_skipped: int) -> tuple[str, ...]:
    notes = []
    if any(isinstance(session, LengthSession) for session in sample.sessions):
        notes.append(LENGTH_ONLY)
    if len(sample.sessions) < sample.n_seen:
        notes.append(f"a sample of {len(sample.sessions):,} of {sample.n_seen:,} sessions")
    if any(session.start_s is not None for session in sample.sessions):
        notes.append("arrival times are compressed to the recorded rate of the whole file")
    if n_skipped:
        notes.append(f"{n_skipped:,} failed requests of the recording are left out")
    return tuple(notes)
