"""The KV pool with its prefix cache: which prompt tokens are already there, and who holds them.

A prompt is a chain of pieces; a piece is known by the hash of everything up to and including it,
as in a radix tree with nodes of at most one piece. Unlocked pieces are evicted oldest first, leaves
before their parents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Piece(NamedTuple):
    """Some tokens of a prompt; ``key`` stands for the text of this piece alone."""

    key: int
    n_tok: int


@dataclass(slots=True)
class _Node:
    n_tok: int
    parent: int | None
    used_at: float
    locks: int = 0
    children: int = 0


@dataclass(slots=True)
class PrefixCache:
    """KV pool of ``capacity_tok`` tokens.

    Attributes:
        keeps: whether finished chains stay for reuse.

    Invariant: ``held_tok`` (private to running requests) + the tokens of all nodes <= capacity.
    """

    capacity_tok: int
    keeps: bool = True
    held_tok: int = 0
    _nodes: dict[int, _Node] = field(default_factory=dict)
    _cached_tok: int = 0
    _locked_tok: int = 0

    @property
    def used_tok(self) -> int:
        """Tokens in the pool: held by running requests or kept for reuse."""
        return self.held_tok + self._cached_tok

    @property
    def busy_tok(self) -> int:
        """Tokens that running requests hold or share, which is what SGLang calls used.

        Source: SGLang 0.5.23, managers/scheduler_components/pool_stats_observer.py: what could be
        evicted does not count.
        """
        return self.held_tok + self._locked_tok

    def match(self, prompt: Sequence[Piece], now: float) -> tuple[list[int], int]:
        """The longest cached prefix: its chain keys and its length in tokens."""
        keys, matched_tok, chain = [], 0, 0
        for piece in prompt:
            chain = hash((chain, piece.key))
            node = self._nodes.get(chain)
            if node is None:
                break
            node.used_at = now
            keys.append(chain)
            matched_tok += node.n_tok
        return keys, matched_tok

    def lock(self, keys: Sequence[int]) -> None:
        for key in keys:
            node = self._nodes[key]
            self._locked_tok += node.n_tok if not node.locks else 0
            node.locks += 1

    def unlock(self, keys: Sequence[int]) -> None:
        for key in keys:
            node = self._nodes[key]
            node.locks -= 1
            self._locked_tok -= node.n_tok if not node.locks else 0

    def reserve(self, n_tok: int) -> bool:
        """Takes ``n_tok`` tokens for a running request, evicting if need be; False: no room."""
        if not self._make_room(n_tok):
            return False
        self.held_tok += n_tok
        return True

    def release(self, n_tok: int) -> None:
        self.held_tok -= n_tok

    def insert(self, prompt: Sequence[Piece], now: float) -> None:
        """Keeps a finished chain for reuse, as far as there is room."""
        chain, parent = 0, None
        for piece in prompt if self.keeps else ():
            chain = hash((chain, piece.key))
            node = self._nodes.get(chain)
            if node is None:
                if not self._make_room(piece.n_tok):
                    return
                if parent is not None and parent not in self._nodes:
                    return  # its own parent was evicted to make room
                self._nodes[chain] = _Node(piece.n_tok, parent, now)
                self._cached_tok += piece.n_tok
                if parent is not None:
                    self._nodes[parent].children += 1
            else:
                node.used_at = now
            parent = chain

    def flush(self) -> None:
        """Drops every piece that no running request locks."""
        while self._evict_oldest():
            pass

    def _make_room(self, n_tok: int) -> bool:
        while self.used_tok + n_tok > self.capacity_tok:
            if not self._evict_oldest():
                return False
        return True

    def _evict_oldest(self) -> bool:
        leaves = [(n.used_at, k) for k, n in self._nodes.items() if not n.locks and not n.children]
        if not leaves:
            return False
        # Equally old ones in the order they came: keys are hashes, different in every process.
        leaves.sort(key=lambda leaf: leaf[0])
        # Evict a batch: one scan of the tree for one piece would be quadratic under pressure.
        for _, key in leaves[: max(1, len(leaves) // 8)]:
            node = self._nodes.pop(key)
            self._cached_tok -= node.n_tok
            if node.parent is not None and node.parent in self._nodes:
                self._nodes[node.parent].children -= 1
        return True
