"""The one loop of a worker: admit, prefill, decode, sample, emit, cancel. Runs in the thread that owns the context.

A step is one forward pass over the next tokens of all decoding slots, and one over a chunk of one prompt that is
being prefilled, so that a long prompt never stops the answers beside it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from functools import partial
from math import isfinite
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np

from appliance.core.errors import EngineCrashedError, ModelFileError, RateLimitedError
from appliance.core.events import Completed, Failed, ModelIdentity
from appliance.core.usage import Timings, Usage
from appliance.engine.constrained import LAST, ConstrainedText, Plan
from appliance.engine.formats import FormatCompiler
from appliance.engine.native import Batch, Context, Vocabulary
from appliance.engine.params import EngineParams
from appliance.engine.prefix_cache import PrefixCache, PrefixSource
from appliance.engine.sampler import Sampler
from appliance.engine.seam import OwedTokens
from appliance.engine.slots import Job, Slot
from appliance.engine.threads import ThreadGovernor

if TYPE_CHECKING:
    from numpy.typing import NDArray

WAITING_LIMIT = 4096
_FORMAT_WAIT_S = 0.02

_DONE, _NO_ROOM, _ABORTED = 0, 1, 2
_TILE_TOKENS = 64
_NO_NUMBERS = ModelFileError(
    "the model computes no numbers (its logits are NaN)",
    hint="its weights or its metadata are damaged: `appliance verify`, or fetch it again",
)


@dataclass(slots=True)
class Counters:
    """What the scheduler has done since it started."""

    steps: int = 0
    prefilled_tokens: int = 0
    decoded_tokens: int = 0


class Scheduler:
    """Runs requests on one context.

    Args:
        governor: lowers the number of threads while others use the cores; None where passes run on a GPU.
        is_cancelled: tells whether a job was cancelled; asked once a step for each job.
    """

    def __init__(
        self,
        context: Context,
        vocabulary: Vocabulary,
        cache: PrefixCache,
        params: EngineParams,
        *,
        can_rewind: bool,
        governor: ThreadGovernor | None,
        is_cancelled: Callable[[int], bool],
    ) -> None:
        self._context = context
        self._vocabulary = vocabulary
        self._cache = cache
        self._params = params
        self._can_rewind = can_rewind
        self._governor = governor
        self._is_cancelled = is_cancelled
        self._batch = Batch(params.batch_tokens)
        self._waiting: deque[Job] = deque()
        self._slots: list[Slot] = []
        self.counters = Counters()
        self.prefilling_id: int | None = None
        self._oldest_first = False
        self._formats = FormatCompiler(vocabulary)
        self._owed = OwedTokens(vocabulary)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not self._slots and not self._waiting

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._slots)

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        return len(self._waiting)

    def submit(self, job: Job) -> None:
        """Queue a request; a full queue answers at once."""
        if len(self._waiting) >= WAITING_LIMIT:
            error = RateLimitedError("the engine's queue is full", retry_after_s=1.0)
            job.emit(Failed(failure=error.to_failure()))
            return
        if job.admitted is not None:
            job.compiled = self._formats.compile(job.admitted)
        self._waiting.append(job)

    def prepare_formats(self) -> None:
        """Use a pause to prepare for requests with an output format."""
        self._formats.prepare()

    def step(self) -> None:
        """Admit what fits; run one pass over the decoding slots and one over a chunk of one prompt.

        Prompts are evaluated one at a time and in chunks with fixed boundaries, never mixed with other sequences:
        llama.cpp picks its attention kernel by the number of tokens in a pass, so a mixed pass would round
        differently and a greedy answer would depend on who else is being served.
        """
        self._drop_cancelled()
        self._admit()
        self._retire()
        decoding = [slot for slot in self._slots if slot.is_generating]
        for group in self._planned(decoding):
            self._run_pass([slot for slot, _ in group], partial(self._fill_decode, group))
        self._retire()
        prefilling = self._next_to_prefill()
        if prefilling is not None:
            self.prefilling_id = prefilling.job.id
            self._run_pass([prefilling], partial(self._fill_chunk, prefilling, is_shared=bool(decoding)))
            self.prefilling_id = None
            self._retire()

    def fail_all(self, error: EngineCrashedError) -> None:
        """End everything with one error."""
        for slot in self._slots:
            slot.fail(error.to_failure())
        for job in self._waiting:
            job.emit(Failed(failure=error.to_failure()))
        self._slots.clear()
        self._waiting.clear()

    def _drop_cancelled(self) -> None:
        for slot in self._slots:
            if self._is_cancelled(slot.job.id):
                slot.finish("cancelled")
        for job in [job for job in self._waiting if self._is_cancelled(job.id)]:
            self._waiting.remove(job)
            _complete_unstarted(job)
        self._retire()

    def _admit(self) -> None:
        while len(self._slots) < self._params.parallel:
            job = next((job for job in self._waiting if job.is_ready), None)
            if job is None:
                self._wait_for_formats()
                return
            reserved = sum(_most_cells(slot.job) for slot in self._slots)
            if self._slots and reserved + _most_cells(job) > self._params.total_cells:
                return
            begun = self._cache.begin(job.request.owner, job.prompt, self._running_sources())
            if begun is None:
                return
            self._waiting.remove(job)
            sequence, cached = begun
            self._slots.append(self._seat(job, sequence, cached))

    def _wait_for_formats(self) -> None:
        """Where all that waits is a format being compiled, do not go round and round."""
        compiling = [job.compiled for job in self._waiting if job.compiled is not None]
        if compiling and not self._slots:
            wait(compiling, timeout=_FORMAT_WAIT_S, return_when=FIRST_COMPLETED)

    def _seat(self, job: Job, sequence: int, cached: int) -> Slot:
        sampler = Sampler(job.request.sampling, vocabulary_size=self._vocabulary.size, prompt=job.prompt)
        slot = Slot(
            job=job,
            sequence=sequence,
            evaluated=cached,
            cached=cached,
            sampler=sampler,
            vocabulary=self._vocabulary,
            constrain=self._constrain,
            started_s=perf_counter(),
        )
        if not slot.is_finished:
            slot.report_prefill()
        return slot

    def _constrain(self, slot: Slot, base: list[int]) -> ConstrainedText:
        assert slot.job.compiled is not None
        return ConstrainedText(
            slot.job.compiled.result(),
            base=base,
            max_tokens=max(1, slot.job.room_tokens - slot.output_tokens),
            is_greedy=slot.sampler.is_plain_greedy,
            can_rewind=self._can_rewind,
            choose=slot.sampler.choose_from_row,
            scorer=slot.logprobs,
        )

    def _running_sources(self) -> list[PrefixSource]:
        return [
            PrefixSource(
                slot.sequence, slot.job.request.owner, np.array(slot.tokens[: slot.evaluated], np.int32)
            )
            for slot in self._slots
        ]

    def _planned(self, slots: list[Slot]) -> list[list[tuple[Slot, Plan]]]:
        """Ask each slot what it wants evaluated; as few passes as the room for logits allows."""
        groups: list[list[tuple[Slot, Plan]]] = []
        room = 0
        for slot in slots:
            plan = slot.plan()
            if plan is None:
                continue
            if len(plan.outputs) > room:
                groups.append([])
                room = self._context.output_limit
            groups[-1].append((slot, plan))
            room -= len(plan.outputs)
        return groups

    def _run_pass(self, slots: list[Slot], fill: Callable[[], None]) -> None:
        self._batch.clear()
        fill()
        outcome = self._decode(slots)
        if outcome == _ABORTED:
            self._rewind(slots)
        elif outcome == _DONE:
            self._after_pass(slots)

    def _fill_decode(self, group: list[tuple[Slot, Plan]]) -> None:
        for slot, plan in group:
            if plan.position < slot.evaluated:
                self._context.truncate(slot.sequence, plan.position)
                slot.evaluated = plan.position
            self._add(slot, plan.tokens, plan.outputs)

    def _add(self, slot: Slot, tokens: Sequence[int], outputs: Sequence[int]) -> None:
        slot.batch_tokens = len(tokens)
        slot.output_count = len(outputs)
        slot.output_row = self._batch.add_many(tokens, slot.evaluated, slot.sequence, outputs=outputs)
        slot.batch_index = self._batch.count - 1

    def _next_to_prefill(self) -> Slot | None:
        """The prompt to go on with: the oldest and the one with least left take turns, so that none starves."""
        waiting = [slot for slot in self._slots if not slot.is_generating]
        if not waiting:
            return None
        self._oldest_first = not self._oldest_first
        return waiting[0] if self._oldest_first else min(waiting, key=lambda slot: slot.pending)

    def _fill_chunk(self, slot: Slot, *, is_shared: bool) -> None:
        params = self._params
        limit = params.shared_prefill_chunk_tokens if is_shared else params.prefill_chunk_tokens
        count = _chunk_tokens(slot.evaluated, slot.pending, limit)
        is_last = count == slot.pending
        if is_last:
            slot.show_forced()
        chunk = (
            slot.tokens[slot.evaluated :] if is_last else slot.tokens[slot.evaluated : slot.evaluated + count]
        )
        outputs = slot.first_plan.outputs if slot.first_plan else LAST
        self._add(slot, chunk, outputs if is_last else ())

    def _decode(self, in_batch: list[Slot]) -> int:
        self._context.clear_abort()
        if any(self._is_cancelled(slot.job.id) for slot in in_batch):
            return _ABORTED
        outcome = self._decode_watched()
        while outcome == _NO_ROOM and self._cache.evict_one():
            outcome = self._context.decode(self._batch)
        self.counters.steps += 1
        if outcome == _NO_ROOM:
            self._end_for_room(in_batch)
        elif outcome < _DONE or outcome > _ABORTED:
            raise EngineCrashedError(f"llama.cpp failed to evaluate a batch (code {outcome})")
        return outcome

    def _decode_watched(self) -> int:
        if self._governor is None:
            return self._context.decode(self._batch)
        before_s, processor_before_s = perf_counter(), process_time()
        outcome = self._context.decode(self._batch)
        now_s = perf_counter()
        threads = self._governor.threads
        wanted = self._governor.observe(
            now_s=now_s, wall_s=now_s - before_s, processor_s=process_time() - processor_before_s
        )
        if wanted != threads:
            self._context.use_threads(wanted)
        return outcome

    def _end_for_room(self, in_batch: list[Slot]) -> None:
        """No cell is left although nothing is kept: the slot that holds most ends, the others go on."""
        largest = max(in_batch, key=lambda slot: slot.evaluated)
        self._rewind(in_batch)
        largest.finish("length")

    def _rewind(self, in_batch: list[Slot]) -> None:
        for slot in in_batch:
            if self._can_rewind:
                self._context.truncate(slot.sequence, slot.evaluated)
            else:
                self._context.remove(slot.sequence)
                slot.evaluated = slot.cached = 0

    def _after_pass(self, in_batch: list[Slot]) -> None:
        logits = self._context.logits(self._batch.output_count)
        for slot in in_batch:
            slot.evaluated += slot.batch_tokens
            if not slot.is_generating:
                self.counters.prefilled_tokens += slot.batch_tokens
                slot.report_prefill()
            if slot.output_count:
                self._advance(slot, logits[slot.output_row : slot.output_row + slot.output_count])

    def _advance(self, slot: Slot, rows: NDArray[np.float32]) -> None:
        if slot.constrained is not None:
            slot.take_rows(list(rows))
            return
        slot.forward_passes += int(slot.is_generating)
        self.counters.decoded_tokens += 1
        row = rows[0]
        chosen = slot.logprobs.read(row) if slot.logprobs else None
        token = self._choose(slot, row)
        if not isfinite(row[token]):
            slot.fail(_NO_NUMBERS.to_failure())
            return
        slot.push_token(token, chosen(token) if chosen else None)

    def _choose(self, slot: Slot, row: NDArray[np.float32]) -> int:
        forced = slot.take_forced()
        if forced is not None:
            slot.sampler.accept(forced)
            return forced
        if slot.owed:
            return slot.sampler.choose_from_row(self._owed.masked(row, slot.owed))
        return slot.sampler.choose(self._context, row, slot.batch_index)

    def _retire(self) -> None:
        if not any(slot.is_finished for slot in self._slots):
            return
        for slot in self._slots:
            if slot.is_finished:
                slot.sampler.close()
                self._keep(slot)
        self._slots = [slot for slot in self._slots if not slot.is_finished]

    def _keep(self, slot: Slot) -> None:
        standing = slot.standing_tokens()
        if len(standing) < slot.evaluated and not self._context.truncate(slot.sequence, len(standing)):
            standing = []
        self._cache.keep(slot.sequence, slot.job.request.owner, standing)


def _chunk_tokens(evaluated: int, pending: int, limit: int) -> int:
    """Tokens of the next pass over a prompt: up to a multiple of the tile from its start, then the rest.

    llama.cpp computes attention in tiles of 64 tokens where a pass has that many and one by one where it has
    fewer. Boundaries at multiples of the tile make each token take the same way however large the chunks are.
    """
    if evaluated + pending <= _TILE_TOKENS or limit < _TILE_TOKENS:
        return min(pending, limit)
    end = (evaluated + min(pending, limit)) // _TILE_TOKENS * _TILE_TOKENS
    return end - evaluated if end > evaluated else pending


def _most_cells(job: Job) -> int:
    return len(job.prompt) + job.room_tokens


def _complete_unstarted(job: Job) -> None:
    waited_s = perf_counter() - job.arrived_s
    job.emit(
        Completed(
            finish_reason="cancelled",
            usage=Usage(input_tokens=len(job.prompt)),
            timings=Timings(queue_s=waited_s, total_s=waited_s),
            model=ModelIdentity(provider="llama_cpp", name=job.request.model),
        )
    )
