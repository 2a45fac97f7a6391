"""Structured output: admit a format, compile it for a vocabulary, and drive sequences that cannot break it.

Before a model runs, in any process, without a tokenizer:

    admitted = admission.admit(request.output)          # raises SchemaRejectedError; cached
    admitted.reports                                    # what happens to each keyword
    admitted.prompt_text()                              # tells the model the shape

In the process that decodes, once for each loaded model:

    vocabulary = TokenVocabulary(
        token_bytes=..., end_token_ids=..., special_token_ids=..., tokenize=...
    )
    grammars = compiler.GrammarCompiler(vocabulary)

For each sequence; any number of them share one batch, each with its own decoder:

    decoder = ConstrainedDecoder(
        grammars.compile(admitted), prompt_tokens=..., options=DecodeOptions(...), choose=...
    )
    while decoder.state == "running":
        step = decoder.next_step()
        if decoder.state != "running":                  # nothing fits max_tokens, or it is whole
            outcome = decoder.outcome()
            break
        # remove from the KV cache what stands behind prompt + step.keep output tokens,
        # evaluate step.tokens there, and take the logits of the positions step.logits_at
        outcome = decoder.on_logits(rows)
        # outcome.text is settled text to stream; outcome.state is running, finished or failed

The first step may come before the end of the prompt is evaluated: its tokens are known to follow and can
be evaluated with the last tokens of the prompt. When it has none, the row it wants is that of the last
prompt token. `choose(row, output_tokens)` picks a token from masked logits; greedy decoding skips it.
A text that fails the exact check sends the decoder back: the next step simply has a smaller `keep`.
"""
