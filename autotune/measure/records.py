"""What one request did, in server seconds. Raw material of every metric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SILENT = "no byte for"
"""How the error of a request begins that was given up because nothing came any more."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request, whatever became of it.

    Attributes:
        sent_s: when its last byte was handed to the socket.
        done_s: when the answer ended or broke off.
        arrivals: ``(time, tokens so far)`` for each event that brought tokens.
        uncounted: ``(time, characters)`` of each event after the last count: of an answer that
            broke off before the server told its tokens.
        n_verify: verify passes of the target; 0 where the server does not tell.
        n_cached_tok: prompt tokens that the prefix cache held; None where not told.
        text: the answer, for the next turn of the session.
        error: why it does not count; empty when it does.
        cut: our own end of the phase broke it off: its tokens count, its latencies do not.
        accept_histogram: verify passes by the number of draft tokens accepted (0, 1, 2, …); empty
            where the server does not tell.
        n_retractions: times the server threw it out of the batch and began it again.
        queue_s: time in the server's queue; None where not told.
        aborted: the server ended it, and says so.
        session: number of the session it belongs to.
        due_s: when it should have been sent; None: it was sent as soon as it could be.
    """

    sent_s: float
    done_s: float
    arrivals: tuple[tuple[float, int], ...]
    n_prompt_tok: int = 0
    n_verify: int = 0
    n_cached_tok: int | None = None
    finish_reason: str = ""
    text: str = ""
    error: str = ""
    cut: bool = False
    uncounted: tuple[tuple[float, int], ...] = ()
    accept_histogram: tuple[int, ...] = ()
    n_retractions: int = 0
    queue_s: float | None = None
    aborted: bool = False
    session: int = 0
    due_s: float | None = None

    @property
    def ok(self) -> bool:
        return not self.error and not self.cut and bool(self.arrivals)

    @property
    def failed(self) -> bool:
        return not self.ok and not self.cut

    @property
    def hung(self) -> bool:
        """Given up because nothing came any more, of this answer or of any other."""
        return self.error.startswith(SILENT)

    @property
    def n_output_tok(self) -> int:
        return self.arrivals[-1][1] if self.arrivals else 0

    @property
    def from_s(self) -> float:
        """Where its latencies begin: an open loop counts from when it was due, however late it was
        sent, or the requests that a stalled server held back would not be seen ("coordinated
        omission").
        """
        return self.sent_s if self.due_s is None else self.due_s

    @property
    def ttft_s(self) -> float:
        """Start to the first token."""
        return self.arrivals[0][0] - self.from_s

    @property
    def e2e_s(self) -> float:
        """Start to the last token."""
        return self.arrivals[-1][0] - self.from_s

    @property
    def tpot_s(self) -> float | None:
        """Seconds per token after the first event; None where only one event brought tokens.

        The first event may carry several tokens, so the time after it is divided by the tokens
        after it: the field's (E2E - TTFT) / (n - 1) wherever the first event carries one.
        """
        (first_s, first_tok), (last_s, last_tok) = self.arrivals[0], self.arrivals[-1]
        if last_tok <= first_tok:
            return None
        return (last_s - first_s) / (last_tok - first_tok)

    def increments(self) -> Iterator[tuple[float, int]]:
        """``(time, new tokens)`` of each event that brought tokens."""
        before = 0
        for at_s, so_far in self.arrivals:
            yield at_s, so_far - before
            before = so_far
