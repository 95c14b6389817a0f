"""Causal attention within segments, and attention over a KV cache."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jopd.models.blocked_attention import blocked_attention

Backend = Literal["auto", "xla", "blocked"]

_SHORT = 128  # up to this length whole [L, L] scores cost less than loops over blocks
_CACHE_BLOCK = 128  # cache indices that are read at a time
_MASKED = -1e30  # finite: a query without any key gives numbers, not NaN


def attend(
    query: Float[Array, "B L N H"],
    key: Float[Array, "B L K H"],
    value: Float[Array, "B L K H"],
    segment_ids: Int[Array, "B L"],
    *,
    backend: Backend = "auto",
) -> Float[Array, "B L N H"]:
    """Softmax attention of every token to the tokens up to itself in its own segment.

    Args:
      query: rotated queries.
      key: rotated keys; query head n reads key head n // (N / K).
      value: values.
      segment_ids: 1, 2, ... per document; 0 where empty.
      backend: "xla" holds [L, L] scores; "blocked" visits only the blocks of the segment at hand;
        "auto" chooses by length.

    Raises:
      ValueError: there is no such backend.
    """
    if backend == "auto":
        backend = "xla" if query.shape[1] <= _SHORT else "blocked"
    if backend not in _BACKENDS:
        raise ValueError(f"attention must be auto or one of {list(_BACKENDS)}, got {backend!r}")
    return _BACKENDS[backend](query, key, value, segment_ids)


def whole_attention(
    query: Float[Array, "B L N H"],
    key: Float[Array, "B L K H"],
    value: Float[Array, "B L K H"],
    segment_ids: Int[Array, "B L"],
) -> Float[Array, "B L N H"]:
    """`attend` with [L, L] scores and a float32 softmax."""
    grouped = _grouped(query, key.shape[2])
    scores = _scores(grouped, key, causal_mask(segment_ids))
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    return _mix(weights, value).reshape(query.shape).astype(query.dtype)


def causal_mask(segment_ids: Int[Array, "B L"]) -> Bool[Array, "B L L"]:
    """[b, i, j]: token i may read token j <= i of its own segment; an empty place reads itself."""
    places = jnp.arange(segment_ids.shape[1])
    behind = (places[:, None] - places[None, :])[None]
    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    return (behind == 0) | (same & (behind > 0) & (segment_ids != 0)[:, :, None])


def cached_attention(
    query: Float[Array, "B T N H"],
    keys: Float[Array, "n B S K H"],
    values: Float[Array, "n B S K H"],
    layer: Int[Array, ""],
    positions: Int[Array, "B T"],
) -> Float[Array, "B T N H"]:
    """Softmax attention of the query at position p to the cache indices <= p of its row.

    The cache is read in blocks up to the largest position in use, with running softmax statistics,
    so neither the empty rest of the cache nor a copy of a whole layer costs anything. A query at or
    past the cache's end is padding: it reads some of its row, and its result means nothing.

    Args:
      query: rotated queries.
      keys: rotated keys of all layers.
      values: values of all layers.
      layer: which layer to read.
      positions: position of each query.
    """
    batch, length, kv_heads, width = keys.shape[1:]
    size = min(_CACHE_BLOCK, length)
    grouped = _grouped(query, kv_heads)

    def read_block(index, carry):
        peak, total, mixed = carry
        start = jnp.minimum(index * size, length - size)  # the last block may overlap its neighbour
        key, value = (
            jax.lax.dynamic_slice(
                cache, (layer, 0, start, 0, 0), (1, batch, size, kv_heads, width)
            )[0].astype(query.dtype)
            for cache in (keys, values)
        )
        indices = (start + jnp.arange(size))[None, None, :]
        scores = _scores(
            grouped, key, (indices <= positions[:, :, None]) & (indices >= index * size)
        )
        new_peak = jnp.maximum(peak, jnp.max(scores, axis=-1))
        weights = jnp.exp(scores - new_peak[..., None])
        shrink = jnp.exp(peak - new_peak)
        mixed = mixed * _per_query(shrink) + _mix(weights.astype(value.dtype), value)
        return new_peak, total * shrink + jnp.sum(weights, axis=-1), mixed

    zeros = jnp.zeros(grouped.shape, jnp.float32)
    total = jnp.zeros((batch, *grouped.shape[2:4], query.shape[1]), jnp.float32)
    last = jnp.max(jnp.where(positions < length, positions, 0))
    carry = (jnp.full_like(total, _MASKED), total, zeros)
    _, total, mixed = jax.lax.fori_loop(0, last // size + 1, read_block, carry)
    return (mixed / _per_query(total)).reshape(query.shape).astype(query.dtype)


def _grouped(query: Float[Array, "B T N H"], kv_heads: int) -> Float[Array, "B T K G H"]:
    """Query heads by the key head that they share."""
    return query.reshape(*query.shape[:2], kv_heads, -1, query.shape[-1])


def _scores(
    query: Float[Array, "B T K G H"], key: Float[Array, "B S K H"], mask: Bool[Array, "B T S"]
) -> Float[Array, "B K G T S"]:
    """Q K' / sqrt(H) where the mask is True."""
    scores = jnp.einsum("BTKGH,BSKH->BKGTS", query, key, preferred_element_type=jnp.float32)
    return jnp.where(mask[:, None, None], scores * query.shape[-1] ** -0.5, _MASKED)


def _mix(
    weights: Float[Array, "B K G T S"], value: Float[Array, "B S K H"]
) -> Float[Array, "B T K G H"]:
    return jnp.einsum("BKGTS,BSKH->BTKGH", weights, value, preferred_element_type=jnp.float32)


def _per_query(statistic: Float[Array, "B K G T"]) -> Float[Array, "B T K G 1"]:
    return statistic.transpose(0, 3, 1, 2)[..., None]


_BACKENDS = {"xla": whole_attention, "blocked": blocked_attention}
