"""Causal attention within segments, and attention over a KV cache."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jopd.models.blocked_attention import blocked_attention

Backend = Literal["auto", "xla", "blocked"]

_SHORT = 128  # up to this length whole [L, L] scores cost less than loops over blocks
_MASKED = -1e30  # finite: a row without any key gives numbers, not NaN


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
    """
    if backend == "auto":
        backend = "xla" if query.shape[1] <= _SHORT else "blocked"
    return _BACKENDS[backend](query, key, value, segment_ids)


def whole_attention(
    query: Float[Array, "B L N H"],
    key: Float[Array, "B L K H"],
    value: Float[Array, "B L K H"],
    segment_ids: Int[Array, "B L"],
) -> Float[Array, "B L N H"]:
    """`attend` with [L, L] scores."""
    return masked_attention(query, key, value, causal_mask(segment_ids))


def causal_mask(segment_ids: Int[Array, "B L"]) -> Bool[Array, "B L L"]:
    """[b, i, j]: token i may read token j <= i of its own segment; an empty place reads itself."""
    places = jnp.arange(segment_ids.shape[1])
    behind = (places[:, None] - places[None, :])[None]
    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    return (behind == 0) | (same & (behind > 0) & (segment_ids != 0)[:, :, None])


def cache_mask(positions: Int[Array, "B T"], length: int) -> Bool[Array, "B T S"]:
    """[b, t, s] is True where the query at `positions[b, t]` may read cache index s."""
    return jnp.arange(length)[None, None, :] <= positions[:, :, None]


def masked_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K H"],
    mask: Bool[Array, "B T S"],
) -> Float[Array, "B T N H"]:
    """Softmax(Q K' / sqrt(H)) V where the mask is True, with a float32 softmax."""
    batch, length, heads, width = query.shape
    kv_heads = key.shape[2]
    grouped = query.reshape(batch, length, kv_heads, heads // kv_heads, width)
    scores = jnp.einsum("BTKGH,BSKH->BKGTS", grouped, key, preferred_element_type=jnp.float32)
    scores = jnp.where(mask[:, None, None], scores * width**-0.5, _MASKED)
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    mixed = jnp.einsum("BKGTS,BSKH->BTKGH", weights, value, preferred_element_type=jnp.float32)
    return mixed.reshape(query.shape).astype(query.dtype)


_BACKENDS = {"xla": whole_attention, "blocked": blocked_attention}
