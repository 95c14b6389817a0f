"""What the JetStream engine computes: prefill, insert, resume, decode.

`prefill` computes the keys and values of one prompt apart from the decode state; `insert` puts them
into a row of it. `resume` copies what another row already holds of a prompt and computes the rest
in place. `decode` runs a block of decode steps for every row. All four draw the next token with the
row's own temperature, seed and token index, so that a response does not depend on its neighbours.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jopd.engines.decode_state import DecodeState, Draws, Orders, begin, unfinished
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.engines.sampling import sample_tokens, token_uniforms
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import KVCache, extend, init_cache, output_head
from jopd.models.logprobs import last_logits
from jopd.types import Params

_CHUNK = 512  # tokens of a long prompt that are computed at once: bounds the attention scores


def prefill(
    params: Params,
    tokens: Int[np.ndarray | Array, " T"],
    length: Int[np.ndarray | Array, ""],
    orders: Orders,
    *,
    config: DecoderConfig,
    settings: JetStreamSettings,
) -> tuple[KVCache, Draws]:
    """Computes a prompt of `length` tokens, padded to a bucket, and draws the first token."""
    cache = init_cache(config, 1, tokens.shape[0], settings.cache_dtype)
    hidden, cache = _compute(params, tokens, length, jnp.int32(0), cache, config, settings)
    return cache, _first_draw(params, hidden, orders, config, settings)


def insert(
    state: DecodeState,
    cache: KVCache,
    drawn: Draws,
    row: Int[np.ndarray | Array, ""],
    length: Int[np.ndarray | Array, ""],
    orders: Orders,
) -> DecodeState:
    """Puts a prefilled prompt of `length` tokens into a row."""
    filled = jax.tree.map(
        lambda rows, one: jax.lax.dynamic_update_slice(rows, one, (0, row, 0, 0, 0)),
        state.cache,
        cache,
    )
    return begin(state, filled, drawn, row, length, orders)


def resume(
    params: Params,
    state: DecodeState,
    tokens: Int[np.ndarray | Array, " T"],
    length: Int[np.ndarray | Array, ""],
    start: Int[np.ndarray | Array, ""],
    source: Int[np.ndarray | Array, ""],
    row: Int[np.ndarray | Array, ""],
    orders: Orders,
    *,
    config: DecoderConfig,
    settings: JetStreamSettings,
) -> DecodeState:
    """Fills a row from another (or the same) that holds the prompt's first `start` tokens.

    Args:
      params: weights.
      state: the decode state.
      tokens: the rest of the prompt, padded to a bucket; `length` of them are real.
      length: real tokens of that rest.
      start: tokens of the prompt that `source` holds.
      source: row to copy from.
      row: row to fill.
      orders: the request.
      config: the decoder.
      settings: sizes.
    """
    history = jax.tree.map(
        lambda rows: jax.lax.dynamic_slice_in_dim(rows, source, 1, axis=1), state.cache
    )
    hidden, history = _compute(params, tokens, length, start, history, config, settings)
    drawn = _first_draw(params, hidden, orders, config, settings)
    filled = jax.tree.map(
        lambda rows, one: jax.lax.dynamic_update_slice_in_dim(rows, one, row, axis=1),
        state.cache,
        history,
    )
    return begin(state, filled, drawn, row, start + length, orders)


def decode(
    params: Params,
    state: DecodeState,
    row_of_slot: Int[np.ndarray | Array, " rows"],
    wanted: Bool[np.ndarray | Array, " rows"],
    *,
    config: DecoderConfig,
    settings: JetStreamSettings,
) -> tuple[DecodeState, Int[Array, "rows columns"]]:
    """Delivers up to `decode_block` tokens of every active row and draws as many new ones.

    Each step delivers the drawn tokens, then computes the rows whose response goes on; the others
    write nothing. The block ends early when no row goes on.

    Args:
      params: weights.
      state: the decode state.
      row_of_slot: which row each slot stands for; orders the result.
      wanted: rows whose response somebody still waits for; the others end here.
      config: the decoder.
      settings: sizes.

    Returns:
      The state, and one line of integers per slot, see `jetstream_messages.Block`.
    """
    state = replace(state, active=state.active & wanted)
    width = settings.decode_block
    rows = state.active.shape[0]
    tokens = jnp.full((rows, width), -1, jnp.int32)
    logprobs = jnp.zeros((rows, width), jnp.float32)

    def goes_on(carry):
        step, state, _, _ = carry
        return (step < width) & jnp.any(unfinished(state))

    def advance(carry):
        step, state, tokens, logprobs = carry
        delivered = _deliver(state, step, tokens, logprobs)
        return step + 1, _step(params, state, config, settings), *delivered

    carry = (jnp.int32(0), state, tokens, logprobs)
    step, state, tokens, logprobs = jax.lax.while_loop(goes_on, advance, carry)
    # Rows left active before the block is full hold the last token of their response.
    tokens, logprobs = _deliver(state, step, tokens, logprobs)
    state = replace(state, active=state.active & (step == width))
    columns = (
        tokens,
        (tokens >= 0).astype(jnp.int32),
        jax.lax.bitcast_convert_type(logprobs, jnp.int32),
        state.index[:, None],
        (~state.active).astype(jnp.int32)[:, None],
        state.orders.version[:, None],
    )
    return state, jnp.concatenate(columns, axis=1)[row_of_slot]


def _compute(
    params: Params,
    tokens: Int[np.ndarray | Array, " T"],
    length: Int[np.ndarray | Array, ""],
    start: Int[np.ndarray | Array, ""],
    cache: KVCache,
    config: DecoderConfig,
    settings: JetStreamSettings,
) -> tuple[Float[Array, "1 D"], KVCache]:
    """Runs `length` tokens of one row from position `start`; the hidden state of the last one."""
    chunk = min(_CHUNK, tokens.shape[0])
    padded = jnp.pad(tokens, (0, -tokens.shape[0] % chunk))
    end = cache.keys.shape[2]

    def run(index, carry):
        _, cache = carry
        first = index * chunk
        places = first + jnp.arange(chunk)
        positions = jnp.where(places < length, start + places, end)  # padding is not written
        hidden, cache = extend(
            params,
            config,
            jax.lax.dynamic_slice_in_dim(padded, first, chunk)[None, :],
            positions[None, :],
            cache,
            compute_dtype=jnp.dtype(settings.compute_dtype),
        )
        last = jnp.clip(length - 1 - first, 0, chunk - 1)
        return hidden[:, last], cache

    if padded.shape[0] == chunk:
        return run(0, (None, cache))
    nothing = jnp.zeros((1, config.hidden_size), settings.compute_dtype)
    return jax.lax.fori_loop(0, (length + chunk - 1) // chunk, run, (nothing, cache))


def _draw(
    params: Params,
    hidden: Float[Array, "B D"],
    orders: Orders,
    index: Int[Array, " B"],
    config: DecoderConfig,
    settings: JetStreamSettings,
) -> Draws:
    token, logprob = sample_tokens(
        last_logits(hidden, output_head(params, config)),
        token_uniforms(orders.seed, index),
        orders.temperature,
        real_vocab_size=settings.real_vocab_size or config.vocab_size,
    )
    return Draws(token=token, logprob=logprob)


def _first_draw(params, hidden, orders, config, settings) -> Draws:
    """The first token of one request, without a row axis."""
    stacked = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], orders)
    draws = _draw(params, hidden, stacked, jnp.zeros(1, jnp.int32), config, settings)
    return jax.tree.map(lambda leaf: leaf[0], draws)


def _deliver(state, step, tokens, logprobs):
    """The drawn tokens of the active rows in column `step`; past the last column, nothing."""
    return (
        tokens.at[:, step].set(jnp.where(state.active, state.drawn.token, -1), mode="drop"),
        logprobs.at[:, step].set(jnp.where(state.active, state.drawn.logprob, 0.0), mode="drop"),
    )


def _step(params, state, config, settings) -> DecodeState:
    """Computes the drawn token of every unfinished row and draws the next."""
    alive = unfinished(state)
    end = state.cache.keys.shape[2]
    hidden, cache = extend(
        params,
        config,
        state.drawn.token[:, None],
        jnp.where(alive, state.position, end)[:, None],
        state.cache,
        compute_dtype=jnp.dtype(settings.compute_dtype),
    )
    index = state.index + 1
    return replace(
        state,
        cache=cache,
        drawn=_draw(params, hidden[:, 0], state.orders, index, config, settings),
        position=state.position + alive,
        index=jnp.where(alive, index, state.index),
        active=alive,
    )
