"""llama.cpp's C interface with types: model, vocabulary, context, batch. One thread may own these objects.

Everything here is a thin call of the low-level bindings; no copy of logits, no Python object a token.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import llama_cpp.llama_cpp as lib
import numpy as np

from appliance.core.errors import EngineCrashedError, ModelFileError
from appliance.engine.params import EngineParams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatRow = NDArray[np.float32]

# ggml's numbers of the formats of keys and values.
_KV_TYPES = {"f16": (1, 1), "q8_0": (8, 8), "q4_0": (2, 2), "reproducible": (1, 0)}
_FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
_PIECE_BYTES = 64
_CONTROL_ATTRIBUTES = 1 << 0 | 1 << 3  # LLAMA_TOKEN_ATTR_UNKNOWN | LLAMA_TOKEN_ATTR_CONTROL
_USER_DEFINED_ATTRIBUTE = 1 << 4

_LOG_WARN, _LOG_ERROR = 3, 4

# Output rows of a step for each sequence that runs: one, and room for drafted tokens to be verified. Each row
# costs a vocabulary of floats in the compute buffer.
_OUTPUTS_A_SEQUENCE = 8
_LEAST_OUTPUTS = 32


@lib.llama_log_callback  # type: ignore[untyped-decorator]
def _log_to_stderr(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    if level in (_LOG_WARN, _LOG_ERROR):
        sys.stderr.write(text.decode("utf-8", "replace"))
        sys.stderr.flush()


def initialise(verbose: bool = False) -> None:
    """Prepare the library once a process."""
    if not verbose:
        lib.llama_log_set(_log_to_stderr, ctypes.c_void_p(0))
    lib.llama_backend_init()


def build_identity() -> str:
    """Name the library version and the processor features it was built for."""
    import llama_cpp

    return f"llama-cpp-python {llama_cpp.__version__}; {system_info()}"


def system_info() -> str:
    """Features the build uses on this machine, as llama.cpp prints them."""
    return str(lib.llama_print_system_info().decode("utf-8", "replace")).strip()


def can_use_gpu() -> bool:
    """Whether this build may leave work to a GPU."""
    return bool(lib.llama_supports_gpu_offload())


class Model:
    """Loaded weights and their vocabulary."""

    def __init__(self, path: Path, *, gpu_layers: int, on_progress: Callable[[float], None]) -> None:
        params = lib.llama_model_default_params()
        params.n_gpu_layers = gpu_layers

        @lib.llama_progress_callback  # type: ignore[untyped-decorator]
        def report(fraction: float, _user_data: ctypes.c_void_p) -> bool:
            on_progress(fraction)
            return True

        params.progress_callback = report
        pointer = lib.llama_model_load_from_file(str(path).encode(), params)
        if pointer is None:
            raise ModelFileError(
                f"llama.cpp cannot load {path.name}",
                hint="the worker's log names the reason; `appliance verify` checks the file",
            )
        self.pointer = pointer
        self.vocabulary = Vocabulary(pointer)

    def metadata(self, key: str) -> str:
        """Return a metadata value as text, empty when it is absent."""
        buffer = ctypes.create_string_buffer(256)
        length = lib.llama_model_meta_val_str(self.pointer, key.encode(), buffer, 256)
        return buffer.value.decode("utf-8", "replace") if length >= 0 else ""

    @property
    def chat_template(self) -> str:
        """The template stored with the weights, empty when there is none."""
        text = lib.llama_model_chat_template(self.pointer, None)
        return text.decode("utf-8", "replace") if text else ""

    @property
    def trained_context(self) -> int:
        """Context length in tokens that the model was trained for."""
        return int(lib.llama_model_n_ctx_train(self.pointer))

    @property
    def can_rewind(self) -> bool:
        """Whether the end of a sequence can be removed from memory; recurrent state cannot."""
        return not (lib.llama_model_is_recurrent(self.pointer) or lib.llama_model_is_hybrid(self.pointer))

    def close(self) -> None:
        """Free the weights."""
        lib.llama_model_free(self.pointer)


class Vocabulary:
    """Token ids and their bytes."""

    def __init__(self, model_pointer: int) -> None:
        self._pointer = lib.llama_model_get_vocab(model_pointer)
        self.size = int(lib.llama_vocab_n_tokens(self._pointer))
        self.bos = int(lib.llama_vocab_bos(self._pointer))
        self.eos = int(lib.llama_vocab_eos(self._pointer))
        self.adds_bos = bool(lib.llama_vocab_get_add_bos(self._pointer))
        self._pieces: dict[int, bytes] = {}

    def is_end(self, token: int) -> bool:
        """Whether the token ends a turn."""
        return bool(lib.llama_vocab_is_eog(self._pointer, token))

    def end_tokens(self) -> frozenset[int]:
        """Every token that ends a turn."""
        return frozenset(token for token in range(self.size) if self.is_end(token))

    def is_control(self, token: int) -> bool:
        """Whether the token is a control token, which has no text of its own."""
        return bool(lib.llama_vocab_get_attr(self._pointer, token) & _CONTROL_ATTRIBUTES)

    def is_user_defined(self, token: int) -> bool:
        """Whether the token is always matched in text, special or not."""
        return bool(lib.llama_vocab_get_attr(self._pointer, token) & _USER_DEFINED_ATTRIBUTE)

    def token_text(self, token: int) -> str:
        """The token as it is written in the vocabulary."""
        text = lib.llama_vocab_get_text(self._pointer, token)
        return text.decode("utf-8", "replace") if text else ""

    def piece(self, token: int) -> bytes:
        """The bytes the token adds to an answer; empty for control tokens."""
        cached = self._pieces.get(token)
        if cached is None:
            cached = self._pieces[token] = self._read_piece(token, special=False)
        return cached

    def special_piece(self, token: int) -> bytes:
        """The bytes of a token with control tokens written out."""
        return self._read_piece(token, special=True)

    def _read_piece(self, token: int, *, special: bool) -> bytes:
        buffer = ctypes.create_string_buffer(_PIECE_BYTES)
        length = lib.llama_token_to_piece(self._pointer, token, buffer, _PIECE_BYTES, 0, special)
        if length < 0:
            buffer = ctypes.create_string_buffer(-length)
            length = lib.llama_token_to_piece(self._pointer, token, buffer, -length, 0, special)
        return buffer.raw[:length]

    def tokenize(self, text: str, *, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        """Turn text into tokens; `parse_special` lets the text of control tokens become control tokens."""
        data = text.encode("utf-8", "surrogatepass")
        capacity = len(data) + 8
        tokens = (ctypes.c_int32 * capacity)()
        count = lib.llama_tokenize(self._pointer, data, len(data), tokens, capacity, add_bos, parse_special)
        if count < 0:
            tokens = (ctypes.c_int32 * -count)()
            count = lib.llama_tokenize(self._pointer, data, len(data), tokens, -count, add_bos, parse_special)
        return list(tokens[:count])


class Batch:
    """Tokens of several sequences for one forward pass, filled in place."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._tokens: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._positions: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._sequences: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._sequence_counts: NDArray[np.int32] = np.ones(capacity, np.int32)
        self._outputs: NDArray[np.int8] = np.zeros(capacity, np.int8)
        self._sequence_pointers: NDArray[np.uintp] = (
            self._sequences.ctypes.data + 4 * np.arange(capacity, dtype=np.uintp)
        ).astype(np.uintp)
        self.raw = lib.llama_batch()
        fields = (
            ("token", self._tokens),
            ("pos", self._positions),
            ("n_seq_id", self._sequence_counts),
            ("seq_id", self._sequence_pointers),
            ("logits", self._outputs),
        )
        types = {field[0]: field[1] for field in lib.llama_batch._fields_}
        for name, array in fields:
            pointer = ctypes.cast(array.ctypes.data, types[name])  # type: ignore[type-var]
            setattr(self.raw, name, pointer)
        self.clear()

    def clear(self) -> None:
        """Empty the batch."""
        self.count = 0
        self.output_count = 0

    def add_many(
        self, tokens: Sequence[int], position: int, sequence: int, *, outputs: Sequence[int] = ()
    ) -> int:
        """Add consecutive tokens; `outputs` get logits, 0 being the last one. Return their first output row."""
        start, end = self.count, self.count + len(tokens)
        self._tokens[start:end] = tokens
        self._positions[start:end] = np.arange(position, position + len(tokens), dtype=np.int32)
        self._sequences[start:end] = sequence
        self._outputs[start:end] = 0
        for back in outputs:
            self._outputs[end - 1 - back] = 1
        first_row = self.output_count
        self.count = end
        self.output_count += len(outputs)
        return first_row


def output_limit(params: EngineParams) -> int:
    """Most tokens of one step that may have logits."""
    wanted = max(_LEAST_OUTPUTS, params.parallel * _OUTPUTS_A_SEQUENCE, params.sequence_limit)
    return min(params.batch_tokens, wanted)


class Context:
    """The KV cache and the compute graph of one model."""

    def __init__(self, model: Model, params: EngineParams, *, threads: int) -> None:
        raw = lib.llama_context_default_params()
        raw.n_ctx = params.total_cells
        raw.n_batch = params.batch_tokens
        raw.n_ubatch = params.ubatch_tokens
        raw.n_seq_max = params.sequence_limit
        self.output_limit = output_limit(params)
        raw.n_outputs_max = raw.n_outputs_max_per_seq = self.output_limit
        raw.n_threads = threads
        raw.n_threads_batch = threads
        raw.flash_attn_type = _FLASH_ATTENTION[params.flash_attention]
        raw.type_k, raw.type_v = _KV_TYPES[params.kv_type]
        raw.kv_unified = True
        raw.swa_full = True  # a prefix can only be cut back where sliding-window cells are all kept
        raw.no_perf = True
        self._abort_flag = ctypes.create_string_buffer(b"\0\0")
        raw.abort_callback = _native_flag_reader()
        raw.abort_callback_data = ctypes.cast(self._abort_flag, ctypes.c_void_p)
        pointer = lib.llama_init_from_model(model.pointer, raw)
        if pointer is None:
            raise EngineCrashedError(
                f"llama.cpp cannot make a context of {params.total_cells} tokens",
                hint="ask for a smaller context window",
            )
        self.pointer = pointer
        self.vocabulary_size = model.vocabulary.size
        self._memory = lib.llama_get_memory(pointer)
        self._logits_address = 0
        self._logits: NDArray[np.float32] = np.empty((0, 0), np.float32)

    def decode(self, batch: Batch) -> int:
        """Run one forward pass: 0 done, 1 no room in the KV cache, 2 aborted, below 0 a fault."""
        batch.raw.n_tokens = batch.count
        return int(lib.llama_decode(self.pointer, batch.raw))

    def use_threads(self, threads: int) -> None:
        """Set the number of threads of the next passes."""
        lib.llama_set_n_threads(self.pointer, threads, threads)

    def abort(self) -> None:
        """Stop the running forward pass at the next graph node. Any thread may call this."""
        self._abort_flag[0] = b"\1"

    def clear_abort(self) -> None:
        """Let forward passes run again."""
        self._abort_flag[0] = b"\0"

    def logits(self, rows: int) -> NDArray[np.float32]:
        """View the logits of the last pass, shape (rows, vocabulary), in batch order. No copy."""
        pointer = lib.llama_get_logits(self.pointer)
        address = ctypes.cast(pointer, ctypes.c_void_p).value or 0
        if address != self._logits_address or rows > self._logits.shape[0]:
            self._logits_address = address
            self._logits = np.ctypeslib.as_array(pointer, shape=(rows, self.vocabulary_size))
        return self._logits[:rows]

    def copy_prefix(self, source: int, target: int, length: int) -> None:
        """Let `target` share the first `length` cells of `source`; nothing is computed or moved."""
        lib.llama_memory_seq_cp(self._memory, source, target, 0, length)

    def truncate(self, sequence: int, length: int) -> bool:
        """Drop cells from position `length` on; False where the model's memory cannot do that."""
        return bool(lib.llama_memory_seq_rm(self._memory, sequence, length, -1))

    def remove(self, sequence: int) -> None:
        """Drop every cell of a sequence."""
        lib.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def state_bytes(self, sequence: int) -> int:
        """Size of the serialised cells of a sequence."""
        return int(lib.llama_state_seq_get_size(self.pointer, sequence))

    def read_state(self, sequence: int) -> bytearray:
        """Serialise the cells of a sequence."""
        size = self.state_bytes(sequence)
        state = bytearray(size)
        written = int(
            lib.llama_state_seq_get_data(
                self.pointer, (ctypes.c_uint8 * size).from_buffer(state), size, sequence
            )
        )
        del state[written:]
        return state

    def write_state(self, sequence: int, state: bytearray) -> bool:
        """Restore cells of a sequence; False where the state does not fit this context."""
        buffer = (ctypes.c_uint8 * len(state)).from_buffer(state)
        return int(lib.llama_state_seq_set_data(self.pointer, buffer, len(state), sequence)) > 0

    def close(self) -> None:
        """Free the context."""
        lib.llama_free(self.pointer)


def _native_flag_reader() -> object:
    """A C function that llama.cpp may call as its abort callback without taking Python's lock.

    The callback runs before every graph node, hundreds of times a token, so it must not enter Python. libc's
    `strlen` has a compatible signature: given the address of a two-byte buffer it returns 0 for an empty
    string and 1 for the flag, which llama.cpp reads as false and true.
    """
    address = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value
    assert address is not None
    return lib.ggml_abort_callback(address)
