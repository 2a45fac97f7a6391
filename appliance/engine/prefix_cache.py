"""Sequences kept after their request ended, so that the next request starts from them.

A kept sequence belongs to one owner and is found by its exact tokens. Sharing is free where it lies in the KV cache:
the new sequence refers to the same cells. But every forward pass walks over all used cells, those of others too;
so what the next request does not begin with is parked: copied to plain memory and back when it is asked for.
Kept sequences go by last use, when their memory is at its limit or running requests need cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from appliance.engine.native import Context
from appliance.engine.prefix_store import PrefixStore, common_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    TokenArray = NDArray[np.int32]

# Reading a file and hashing it costs more than computing a short prefix again.
_LEAST_SAVED_TOKENS = 64
# llama.cpp attends over used cells rounded up to so many: fewer kept ones cost a pass nothing.
_FREE_CELLS = 256


@dataclass(slots=True, eq=False)
class KeptSequence:
    """Cells that stay: whose they are, the tokens in them, and where they lie.

    `sequence` is the id in the KV cache, None where the cells are parked in `state`.
    """

    sequence: int | None
    owner: str
    tokens: TokenArray
    state: bytearray | None = None
    is_saved: bool = False


@dataclass(frozen=True, slots=True)
class PrefixSource:
    """A sequence from which a prefix can be copied."""

    sequence: int
    owner: str
    tokens: TokenArray


class PrefixCache:
    """Owns the sequence ids of a context and everything kept in them.

    Args:
        can_rewind: whether a sequence can be cut back; if not, only whole kept sequences are reused.
        parked_limit_bytes: the most that parked sequences may take together; 0 parks none.
    """

    def __init__(
        self,
        context: Context,
        *,
        sequences: int,
        can_rewind: bool,
        store: PrefixStore | None,
        parked_limit_bytes: int,
    ) -> None:
        self._context = context
        self._free = list(range(sequences))
        self._kept: list[KeptSequence] = []
        self._can_rewind = can_rewind
        self._store = store
        self._parked_limit_bytes = parked_limit_bytes

    @property
    def kept_count(self) -> int:
        """Number of kept sequences."""
        return len(self._kept)

    @property
    def kept_tokens(self) -> int:
        """Tokens in kept sequences; cells that several share count for each."""
        return sum(len(kept.tokens) for kept in self._kept)

    @property
    def parked_bytes(self) -> int:
        """Memory of parked sequences."""
        return sum(len(kept.state) for kept in self._kept if kept.state is not None)

    def begin(self, owner: str, prompt: list[int], running: Iterable[PrefixSource]) -> tuple[int, int] | None:
        """Take a sequence for a prompt, filled with the longest known prefix.

        Returns:
            The sequence id and the number of tokens already in it, at most one less than the prompt has, so that
            at least one is evaluated for its logits; or None when every sequence is running.
        """
        tokens = np.array(prompt, np.int32)[: len(prompt) - 1]
        source, length = self._best_source(owner, tokens, running)
        sequence = self._take_sequence(source)
        if sequence is None:
            return None
        filled = self._fill(sequence, source, owner, tokens, length)
        self._park_unshared(source, length if filled == length else 0)
        return sequence, filled

    def _fill(
        self,
        sequence: int,
        source: KeptSequence | PrefixSource | None,
        owner: str,
        tokens: TokenArray,
        length: int,
    ) -> int:
        """Put the longest known prefix into a sequence; return its length."""
        if source is not None and source.sequence == sequence:
            self._context.truncate(sequence, length)
            return length
        saved_length = self._restore(owner, tokens, sequence, better_than=length)
        if saved_length is not None:
            return saved_length
        if source is None:
            return 0
        if source.sequence is not None:
            self._context.copy_prefix(source.sequence, sequence, length)
            return length
        return self._unpark(source, sequence, length)

    def keep(self, sequence: int, owner: str, tokens: list[int]) -> None:
        """Keep a sequence whose request ended; kept sequences that it contains go."""
        array = np.array(tokens, np.int32)
        if not len(array):
            self.release(sequence)
            return
        for kept in list(self._kept):
            if kept.owner == owner and common_prefix(kept.tokens, array) == len(kept.tokens):
                self._drop(kept)
        self._kept.append(KeptSequence(sequence, owner, array))

    def release(self, sequence: int) -> None:
        """Give a sequence back and drop its cells."""
        self._context.remove(sequence)
        self._free.append(sequence)

    def evict_one(self) -> bool:
        """Free the cells of the kept sequence that was used longest ago; False when none holds any."""
        oldest = next((kept for kept in self._kept if kept.sequence is not None), None)
        if oldest is None:
            return False
        if not self._park(oldest):
            self._drop(oldest)
        return True

    def forget(self, owner: str) -> None:
        """Drop every prefix of an owner, in memory and on disk."""
        for kept in [kept for kept in self._kept if kept.owner == owner]:
            self._drop(kept)
        if self._store is not None:
            self._store.forget(owner)

    def save_one(self) -> bool:
        """Write one kept prefix that is not on disk yet; False when there is nothing to write.

        Raises:
            OSError: the disk is full or cannot be written; the prefix is not tried again.
        """
        if self._store is None:
            return False
        for kept in self._kept:
            if kept.is_saved or len(kept.tokens) < _LEAST_SAVED_TOKENS:
                continue
            kept.is_saved = True
            if not self._store.holds(kept.owner, kept.tokens):
                self._store.save(kept.owner, kept.tokens, self._state_of(kept))
                return True
        return False

    def _best_source(
        self, owner: str, tokens: TokenArray, running: Iterable[PrefixSource]
    ) -> tuple[KeptSequence | PrefixSource | None, int]:
        best: KeptSequence | PrefixSource | None = None
        best_length = 0
        sources: tuple[KeptSequence | PrefixSource, ...] = (*self._kept, *running)
        for source in sources:
            if source.owner != owner:
                continue
            length = common_prefix(source.tokens, tokens)
            if not self._can_rewind and length < len(source.tokens):
                continue
            if length > best_length:
                best, best_length = source, length
        if isinstance(best, KeptSequence):
            self._kept.remove(best)
            self._kept.append(best)  # the end of the list is the most recently used
        return best, best_length

    def _take_sequence(self, source: KeptSequence | PrefixSource | None) -> int | None:
        if not self._free:
            held = [kept for kept in self._kept if kept.sequence is not None]
            victim = next((kept for kept in held if kept is not source), None)
            if victim is None and isinstance(source, KeptSequence) and source in held:
                self._kept.remove(source)  # the only kept sequence becomes the running one
                return source.sequence
            if victim is None:
                return None
            if not self._park(victim):
                self._drop(victim)
        return self._free.pop()

    def _park_unshared(self, source: KeptSequence | PrefixSource | None, shared: int) -> None:
        """Leave in the KV cache no more than a pass gives away of what the request does not begin with."""
        left = _FREE_CELLS
        for kept in reversed(self._kept):
            if kept.sequence is None:
                continue
            left -= max(0, len(kept.tokens) - (shared if kept is source else 0))
            if left < 0:
                self._park(kept)

    def _park(self, kept: KeptSequence) -> bool:
        """Move a kept sequence out of the KV cache; False where it does not fit."""
        assert kept.sequence is not None
        if not self._parked_limit_bytes:
            return False
        size = self._context.state_bytes(kept.sequence)
        if not 0 < size <= self._parked_limit_bytes:
            return False
        state = self._context.read_state(kept.sequence)
        if len(state) != size:
            return False
        while self.parked_bytes + size > self._parked_limit_bytes:
            self._drop(next(other for other in self._kept if other.state is not None))
        kept.state = state
        self.release(kept.sequence)
        kept.sequence = None
        return True

    def _unpark(self, parked: KeptSequence, sequence: int, length: int) -> int:
        """Copy a parked prefix into a sequence; return its length, 0 where there is no room for it."""
        assert parked.state is not None
        while not self._context.write_state(sequence, parked.state):
            self._context.remove(sequence)
            if not self.evict_one():
                return 0
        if length < len(parked.tokens):
            self._context.truncate(sequence, length)
        return length

    def _state_of(self, kept: KeptSequence) -> bytearray:
        if kept.state is not None:
            return kept.state
        assert kept.sequence is not None
        return self._context.read_state(kept.sequence)

    def _restore(self, owner: str, tokens: TokenArray, sequence: int, *, better_than: int) -> int | None:
        if self._store is None:
            return None
        if self._store.longest_match(owner, tokens) < better_than + _LEAST_SAVED_TOKENS:
            return None
        restored = self._store.restore(owner, tokens)
        if restored is None:
            return None
        saved_tokens, state = restored
        length = common_prefix(saved_tokens, tokens)
        self._context.remove(sequence)
        is_usable = self._context.write_state(sequence, state) and (
            length == len(saved_tokens) or (self._can_rewind and self._context.truncate(sequence, length))
        )
        if not is_usable:
            self._context.remove(sequence)
            return None
        return length

    def _drop(self, kept: KeptSequence) -> None:
        self._kept.remove(kept)
        if kept.sequence is not None:
            self.release(kept.sequence)
