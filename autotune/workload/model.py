"""Sessions and turns: the load, without saying how it is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.errors import WorkloadError, nearest


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a session: what the user (or a tool) says next.

    Attributes:
        text: the new message.
        max_output_tok: cap of the answer; the natural end usually comes first.
    """

    text: str
    max_output_tok: int


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation. Each turn is sent with everything said before it, real answers included."""

    number: int
    system: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """A source of sessions: session ``n`` is the same text for every trial and every run.

    Attributes:
        reference_output_tok: length of the reference turn that ``latency_s`` speaks of (n_ref).
        temperature: sampling temperature, as deployed.
        session: makes session ``n`` (0, 1, 2, …), deterministic in ``n`` and the workload's seed.
    """

    name: str
    title: str
    reference_output_tok: int
    temperature: float
    session: Callable[[int], Session]


def workload_named(name: str, *, seed: int = 0) -> Workload:
    """A built-in workload by name.

    Raises:
        WorkloadError: no workload has this name.
    """
    from autotune.workload.agentic import agentic

    builtin = {"agentic": agentic}
    try:
        return builtin[name](seed)
    except KeyError:
        raise WorkloadError(
            f"there is no workload named {name!r}: {nearest(name, builtin)}"
        ) from None
