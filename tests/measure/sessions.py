"""Workloads made by hand: small sessions whose every word is known."""

from __future__ import annotations

from autotune.workload import Message, Session, Turn, Workload


def sessions_of(
    n_turns: int,
    *,
    answered: bool = False,
    gap_s: float = 0.0,
    n_sessions: int | None = None,
    starts_every_s: float | None = None,
    words: int = 1,
) -> Workload:
    """Session ``n`` says ``session n turn 0``, ``session n turn 1``, … after one system prompt.

    Args:
        answered: the answers are recorded, too: ``recorded n.0``, …
        words: how often each turn says its words.
    """

    def session(number: int, context_tok: int | None) -> Session:
        turns = []
        for place in range(n_turns):
            said: Message = {"role": "user", "content": f"session {number} turn {place} " * words}
            said["content"] = said["content"].strip()
            opening = ({"role": "system", "content": "system"}, said) if place == 0 else (said,)
            answer = f"recorded {number}.{place}" if answered else None
            turns.append(Turn(opening, 64, gap_s=gap_s if place else 0.0, answer=answer))
        start_s = None if starts_every_s is None else number * starts_every_s
        return Session(tuple(turns), start_s=start_s)

    return Workload("test", "test", 100, 0.6, session, n_sessions)


SHORT = sessions_of(3)


def healthy() -> None:
    """A check that never finds anything wrong."""
