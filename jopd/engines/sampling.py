"""Sampling of one token per row, and its log-prob at temperature 1.

A token is drawn by inverse CDF at two levels: first a block of the vocabulary, then a token inside
it. Each level has a uniform number of its own, so the resolution of float32 limits neither.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

_BLOCK = 512  # ids per block: near the square root of the vocabulary, so both sums are short


def sample_tokens(
    logits: Float[Array, "B V"],
    uniforms: Float[Array, "B 2"],
    temperatures: Float[Array, " B"],
    *,
    real_vocab_size: int,
) -> tuple[Int[Array, " B"], Float[Array, " B"]]:
    """Draws one id per row and takes its natural log-prob.

    Args:
      logits: float32 logits over the padded vocabulary.
      uniforms: two numbers in [0, 1) per row, see `token_uniforms`.
      temperatures: of sampling; 0 takes the id of the largest logit.
      real_vocab_size: ids at and past it are padding and never drawn.

    Returns:
      The ids, and their log-probs at temperature 1 over the whole padded vocabulary.
    """
    real = jnp.arange(logits.shape[1])[None, :] < real_vocab_size
    allowed = jnp.where(real, logits, -jnp.inf)
    greedy = temperatures == 0
    safe = jnp.where(greedy, 1.0, temperatures)
    nothing = jnp.zeros(logits.shape[0], jnp.int32)  # what nobody asked for is not computed
    largest = jax.lax.cond(
        jnp.any(greedy), lambda: jnp.argmax(allowed, axis=-1).astype(jnp.int32), lambda: nothing
    )
    drawn = jax.lax.cond(
        jnp.all(greedy), lambda: nothing, lambda: _draw(allowed / safe[:, None], uniforms)
    )
    tokens = jnp.where(greedy, largest, drawn)
    chosen = jnp.take_along_axis(logits, tokens[:, None], axis=-1)[:, 0]
    return tokens, chosen - jax.nn.logsumexp(logits, axis=-1)


def token_uniforms(seeds: UInt32[Array, "B 2"], indices: Int[Array, " B"]) -> Float[Array, "B 2"]:
    """Two uniform numbers per row that depend on the row's seed and token index only.

    Args:
      seeds: 64 bits per request.
      indices: index of the token in its response, from 0.
    """

    def one(seed, index):
        key = jax.random.wrap_key_data(seed, impl="threefry2x32")
        return jax.random.uniform(jax.random.fold_in(key, index), (2,))

    return jax.vmap(one)(seeds, indices)


def _draw(scaled: Float[Array, "B V"], uniforms: Float[Array, "B 2"]) -> Int[Array, " B"]:
    rows, vocab = scaled.shape
    width = min(_BLOCK, vocab)
    padded = jnp.pad(scaled, ((0, 0), (0, -vocab % width)), constant_values=-jnp.inf)
    blocks = padded.reshape(rows, -1, width)
    peak = jnp.max(scaled, axis=-1)[:, None, None]
    block = _first_crossing(jnp.sum(jnp.exp(blocks - peak), axis=-1), uniforms[:, 0])
    inside = jnp.take_along_axis(blocks, block[:, None, None], axis=1) - peak
    token = block * width + _first_crossing(jnp.exp(inside[:, 0]), uniforms[:, 1])
    return token.astype(jnp.int32)


def _first_crossing(weights: Float[Array, "B n"], uniforms: Float[Array, " B"]) -> Int[Array, " B"]:
    """First index whose cumulative weight passes uniform x total; its weight is never 0."""
    cumulative = jnp.cumsum(weights, axis=-1)
    targets = uniforms * cumulative[:, -1]
    crossing = jnp.sum(cumulative <= targets[:, None], axis=-1)
    positive = jnp.where(weights > 0, jnp.arange(weights.shape[1])[None, :], 0)
    return jnp.minimum(crossing, jnp.max(positive, axis=-1))  # rounding may pass the total
