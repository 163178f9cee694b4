"""Our own form: one ``Session`` per line, as JSON."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from autotune.workload.lengths import Recorded
from autotune.workload.model import Session
from autotune.workload.readers.complaint import BadRow
from autotune.workload.readers.dialogue import check_messages
from autotune.workload.readers.driver import each
from autotune.workload.readers.source import Source

_session = msgspec.json.Decoder(Session)
_encoder = msgspec.json.Encoder()


def canonical(source: Source) -> Iterator[Recorded]:
    """The sessions as they were written."""
    return each(source, _session, _checked)


def line_of(session: Session) -> bytes:
    """A session as a line of a file."""
    return _encoder.encode(session) + b"\n"


def _checked(session: Session, line: int) -> Session:
    if not session.turns:
        raise BadRow("turns must hold at least one turn")
    for place, turn in enumerate(session.turns):
        check_messages(list(turn.messages))
        if turn.max_output_tok < 1:
            raise BadRow(f"turns[{place}].max_output_tok must be at least 1")
        for name in ("gap_s", "n_input_tok", "n_output_tok"):
            if (getattr(turn, name) or 0) < 0:
                raise BadRow(f"turns[{place}].{name} must be at least 0")
    return session
