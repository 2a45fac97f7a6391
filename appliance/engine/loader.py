"""Open a model in this process: weights, context, template, tokenizer, prefix cache, ready for the scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import psutil

from appliance.catalog.gguf import read_gguf
from appliance.core.errors import ContextOverflowError, InvalidRequestError
from appliance.core.requests import GenerateRequest
from appliance.engine import native
from appliance.engine.chat_template import ChatTemplate, PromptPiece
from appliance.engine.native import Context, Model
from appliance.engine.open_turn import render_open
from appliance.engine.params import EngineInfo, EngineParams
from appliance.engine.prefix_cache import PrefixCache
from appliance.engine.prefix_store import PrefixStore
from appliance.engine.prompt_tokens import PromptTokenizer
from appliance.engine.protocol import Submit
from appliance.engine.reasoning import find_tags
from appliance.engine.slots import Emit, Job
from appliance.engine.tool_calls import CallSplitter, shows_tools, with_tools_told
from appliance.structured.requested import may_call_tools


@dataclass(slots=True)
class LoadedModel:
    """Everything a request needs of a model."""

    params: EngineParams
    info: EngineInfo
    model: Model
    context: Context
    template: ChatTemplate
    tokenizer: PromptTokenizer
    cache: PrefixCache
    store: PrefixStore | None

    def prompt_tokens(self, request: GenerateRequest) -> tuple[list[int], bool]:
        """Render and tokenise a request's prompt; also say whether the template opened the thinking."""
        messages = request.conversation.messages
        if request.is_raw:
            return self.tokenizer.tokenize([PromptPiece(messages[0].text, is_literal=True)]), False
        tools = request.tools if may_call_tools(request) else ()
        if not shows_tools(self.template.source):
            messages, tools = with_tools_told(messages, tools), ()
        tags = self.info.reasoning_tags
        if request.conversation.is_open:
            return self.tokenizer.tokenize_open(render_open(self.template, messages, tools, tags)), False
        pieces = self.template.render(messages, tools)
        is_open = tags is not None and bool(pieces) and pieces[-1].text.rstrip().endswith(tags[0])
        return self.tokenizer.tokenize(pieces), is_open

    def prepare(self, command: Submit, emit: Emit, arrived_s: float) -> Job:
        """Turn a request into a job.

        Raises:
            ContextOverflowError: the prompt leaves no room for one token of an answer.
            InvalidRequestError: the template refuses the conversation, the prompt is empty, or a bias is for
                a token that the model does not have.
        """
        request = command.request
        self._check_biases(request)
        prompt, thinking_is_open = self.prompt_tokens(request)
        if not prompt:
            raise InvalidRequestError("the prompt has no tokens")
        room = self.info.context_window - len(prompt)
        if room < 1:
            raise ContextOverflowError(prompt_tokens=len(prompt), context_window=self.info.context_window)
        return Job(
            id=command.id,
            request=request,
            prompt=prompt,
            room_tokens=min(room, request.sampling.max_tokens or room),
            emit=emit,
            arrived_s=arrived_s,
            thinking_is_open=thinking_is_open,
            reasoning_tags=self.info.reasoning_tags if _may_think(request) else None,
            admitted=command.admitted,
            calls=_call_splitter(request) if may_call_tools(request) else None,
        )

    def _check_biases(self, request: GenerateRequest) -> None:
        size = self.model.vocabulary.size
        unknown = [token for token in request.sampling.logit_bias if not 0 <= token < size]
        if unknown:
            raise InvalidRequestError(
                f"logit_bias names the token {unknown[0]}; this model has the tokens 0 to {size - 1}",
                hint="take the ids from /tokenize, asked for the same model",
            )


def load(params: EngineParams, on_progress: Callable[[float], None]) -> LoadedModel:
    """Load weights and make a context.

    Raises:
        ModelFileError: the weights or the chat template cannot be used.
        InvalidRequestError: the context asked for is longer than the model was trained for.
    """
    started_s = perf_counter()
    read_gguf(params.model_path)  # refuses a damaged or hostile file before anything maps it
    native.initialise()
    model = Model(params.model_path, gpu_layers=params.gpu_layers, on_progress=on_progress)
    if params.context_window > model.trained_context > 0:
        raise InvalidRequestError(
            f"a context window of {params.context_window} tokens was asked for; "
            f"{params.model_name} was trained for {model.trained_context}",
            hint=f"use a context window of at most {model.trained_context}",
        )
    threads = params.threads or default_threads()
    context = Context(model, params, threads=threads)
    source = params.chat_template or model.chat_template
    tokenizer = PromptTokenizer(model.vocabulary, source)
    template = ChatTemplate(
        source,
        bos=model.vocabulary.token_text(model.vocabulary.bos) if model.vocabulary.bos >= 0 else "",
        eos=model.vocabulary.token_text(model.vocabulary.eos) if model.vocabulary.eos >= 0 else "",
        guarded=tokenizer.guarded,
    )
    store = _open_store(params)
    cache = PrefixCache(
        context,
        sequences=params.sequence_limit,
        can_rewind=model.can_rewind,
        store=store,
        parked_limit_bytes=params.prefix_ram_bytes if params.kept_sequences else 0,
    )
    info = EngineInfo(
        pid=os.getpid(),
        model_name=params.model_name,
        model_digest=params.model_digest,
        architecture=model.metadata("general.architecture"),
        context_window=params.context_window,
        trained_context=model.trained_context,
        parallel=params.parallel,
        kv_cells=params.total_cells,
        threads=threads,
        vocabulary_size=model.vocabulary.size,
        has_chat_template=bool(source),
        reasoning_tags=params.reasoning_tags or find_tags(source),
        can_reuse_prefixes=model.can_rewind,
        end_tokens=tuple(sorted(model.vocabulary.end_tokens())),
        build=native.build_identity(),
        load_s=perf_counter() - started_s,
    )
    return LoadedModel(params, info, model, context, template, tokenizer, cache, store)


def default_threads() -> int:
    """Physical cores this process may use: hyper-threads add nothing to memory-bound work."""
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else physical
    return max(1, min(physical, allowed))


def _may_think(request: GenerateRequest) -> bool:
    """The thinking stands at the beginning of a turn; an open one has its beginning."""
    return not (request.is_raw or request.conversation.is_open)


def _call_splitter(request: GenerateRequest) -> CallSplitter:
    return CallSplitter(request.tools, lambda index: f"call_{request.request_id[:24]}_{index}")


def _open_store(params: EngineParams) -> PrefixStore | None:
    if params.prefix_dir is None or params.prefix_disk_bytes <= 0 or not params.model_digest:
        return None
    identity = {
        "model": params.model_digest,
        "build": native.build_identity(),
        "kv_type": params.kv_type,
        "flash_attention": params.flash_attention,
        "gpu_layers": str(params.gpu_layers),
    }
    try:
        return PrefixStore(
            params.prefix_dir / params.model_digest[:32],
            identity=identity,
            limit_bytes=params.prefix_disk_bytes,
        )
    except OSError:
        return None  # a cache that cannot be opened is an empty cache
