"""Causal attention of packed rows in blocks: no [L, L] matrix, no work on other segments' blocks.

For each block of queries only the key blocks from the earliest one that shares a segment with it up
to the diagonal are visited, with running softmax statistics, forward and backward (the recurrences
of FlashAttention-2, arXiv:2307.08691, written as XLA loops with dynamic bounds). Rows are looped,
so a long segment in one row costs the other rows nothing; devices that hold different rows or heads
loop on their own.

Shapes in here: R rows, C blocks, K key and value heads, Q = G * block queries that share one of
them, S = block keys, H head width.
"""

import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.custom_partitioning import custom_partitioning
from jaxtyping import Array, Bool, Float, Int

from jopd.models.layers import SAVED

_BLOCK = 64
_MASKED = -1e30

Blocks = Float[Array, "R C K Q H"]
KeyBlocks = Float[Array, "R C K S H"]


def blocked_attention(
    query: Float[Array, "B L N H"],
    key: Float[Array, "B L K H"],
    value: Float[Array, "B L K H"],
    segment_ids: Int[Array, "B L"],
) -> Float[Array, "B L N H"]:
    """`attention.attend` in blocks; any length, any order of segments."""
    length = query.shape[1]
    padding = -length % _BLOCK
    query, key, value, segment_ids = (
        jnp.pad(x, ((0, 0), (0, padding)) + ((0, 0),) * (x.ndim - 2))
        for x in (query, key, value, segment_ids)
    )
    kv_heads = key.shape[2]
    segments = segment_ids.reshape(segment_ids.shape[0], -1, _BLOCK)
    mixed = _attend(
        _to_blocks(query, kv_heads),
        _to_blocks(key, kv_heads),
        _to_blocks(value, kv_heads),
        segments,
    )
    return _from_blocks(mixed)[:, :length]


def _to_blocks(x: Float[Array, "R L N H"], kv_heads: int) -> Float[Array, "R C K Q H"]:
    rows, length, heads, width = x.shape
    x = x.reshape(rows, length // _BLOCK, _BLOCK, kv_heads, heads // kv_heads, width)
    return x.transpose(0, 1, 3, 4, 2, 5).reshape(rows, length // _BLOCK, kv_heads, -1, width)


def _from_blocks(x: Float[Array, "R C K Q H"]) -> Float[Array, "R L N H"]:
    rows, blocks, kv_heads, queries, width = x.shape
    x = x.reshape(rows, blocks, kv_heads, queries // _BLOCK, _BLOCK, width)
    return x.transpose(0, 1, 4, 2, 3, 5).reshape(rows, blocks * _BLOCK, -1, width)


@jax.custom_vjp
def _attend(
    query: Blocks, key: KeyBlocks, value: KeyBlocks, segments: Int[Array, "R C S"]
) -> Blocks:
    return _forward(query, key, value, segments)[0]


def _attend_forward(query, key, value, segments):
    mixed, logsumexp = checkpoint_name(_forward(query, key, value, segments), SAVED)
    return mixed, (query, key, value, segments, mixed, logsumexp)


def _attend_backward(kept, cotangent):
    query, key, value, segments, mixed, logsumexp = kept
    # The softmax's backward pass subtracts, per query, the mean of dP under P, which is dO . O.
    mean = jnp.sum(cotangent.astype(jnp.float32) * mixed.astype(jnp.float32), axis=-1)
    return (*_backward(query, key, value, segments, logsumexp, cotangent, mean), None)


_attend.defvjp(_attend_forward, _attend_backward)


@custom_partitioning
def _forward(query, key, value, segments):
    """Mixed values [R, C, K, Q, H], and log of the softmax's denominator [R, C, K, Q]."""
    return jax.lax.map(_row_forward, (query, key, value, segments))


@custom_partitioning
def _backward(query, key, value, segments, logsumexp, cotangent, mean):
    """Cotangents of query, key and value."""
    return jax.lax.map(_row_backward, (query, key, value, segments, logsumexp, cotangent, mean))


def _row_forward(row):
    query, key, value, segments = row
    first = _first_block(segments)

    def query_block(i):
        def key_block(j, carry):
            peak, total, mixed = carry
            scores = _scores(query[i], key[j], segments, i, j)
            new_peak = jnp.maximum(peak, jnp.max(scores, axis=-1))
            weights = jnp.exp(scores - new_peak[..., None])
            shrink = jnp.exp(peak - new_peak)
            update = _product("KQS,KSH->KQH", weights.astype(value.dtype), value[j])
            mixed = mixed * shrink[..., None] + update
            return new_peak, total * shrink + jnp.sum(weights, axis=-1), mixed

        zeros = jnp.zeros(query.shape[1:], jnp.float32)
        start = (jnp.full(zeros.shape[:2], _MASKED), zeros[..., 0], zeros)
        peak, total, mixed = jax.lax.fori_loop(first[i], i + 1, key_block, start)
        return (mixed / total[..., None]).astype(query.dtype), peak + jnp.log(total)

    return jax.lax.map(query_block, jnp.arange(query.shape[0]))


def _row_backward(row):
    query, key, value, segments, logsumexp, cotangent, mean = row
    first = _first_block(segments)

    def query_block(carry, i):
        def key_block(j, carry):
            d_query, d_key, d_value = carry
            scores = _scores(query[i], key[j], segments, i, j)
            weights = jnp.exp(scores - logsumexp[i][..., None])
            d_weights = _product("KQH,KSH->KQS", cotangent[i], value[j])
            d_scores = weights * (d_weights - mean[i][..., None]) * query.shape[-1] ** -0.5
            weights, d_scores = weights.astype(query.dtype), d_scores.astype(query.dtype)
            d_value = d_value.at[j].add(_product("KQS,KQH->KSH", weights, cotangent[i]))
            d_key = d_key.at[j].add(_product("KQS,KQH->KSH", d_scores, query[i]))
            return d_query + _product("KQS,KSH->KQH", d_scores, key[j]), d_key, d_value

        d_query = jnp.zeros(query.shape[1:], jnp.float32)
        d_query, *carry = jax.lax.fori_loop(first[i], i + 1, key_block, (d_query, *carry))
        return tuple(carry), d_query.astype(query.dtype)

    zeros = jnp.zeros(key.shape, jnp.float32)
    carry, d_query = jax.lax.scan(query_block, (zeros, zeros), jnp.arange(query.shape[0]))
    return d_query, carry[0].astype(key.dtype), carry[1].astype(value.dtype)


def _first_block(segments: Int[Array, "C S"]) -> Int[Array, " C"]:
    """For each block of queries the first block of keys whose range of segments meets its own."""
    low = jnp.min(jnp.where(segments == 0, jnp.iinfo(segments.dtype).max, segments), axis=-1)
    high = jnp.max(segments, axis=-1)
    meet = (low[:, None] <= high[None, :]) & (low[None, :] <= high[:, None])
    return jnp.argmax(meet | jnp.eye(len(low), dtype=bool), axis=-1)


def _scores(query, key, segments, i, j) -> Float[Array, "K Q S"]:
    """Scaled scores of query block i against key block j, masked."""
    scores = _product("KQH,KSH->KQS", query, key) * query.shape[-1] ** -0.5
    grouped = scores.reshape(query.shape[0], -1, _BLOCK, _BLOCK)
    grouped = jnp.where(_readable(segments, i, j)[None, None], grouped, _MASKED)
    return grouped.reshape(scores.shape)


def _readable(segments: Int[Array, "C S"], i, j) -> Bool[Array, "S S"]:
    """[q, s]: same segment and not later; an empty place reads itself."""
    places = jnp.arange(_BLOCK)
    behind = (i * _BLOCK + places)[:, None] - (j * _BLOCK + places)[None, :]
    same = segments[i][:, None] == segments[j][None, :]
    return (behind == 0) | (same & (behind > 0) & (segments[i] != 0)[:, None])


_product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


def _locally(function):
    """Each device runs the function on the rows and heads that it holds."""

    def partition(mesh, arguments, results):
        shardings = jax.tree.map(lambda shape: shape.sharding, (results, arguments))
        return mesh, function, *shardings

    return partition


_forward.def_partition(
    _locally(_forward.fun),
    sharding_rule="r c k q h, r c k s h, r c k s h, r c s -> r c k q h, r c k q",
    need_replication_factors=("c", "q", "h", "s"),
)
_backward.def_partition(
    _locally(_backward.fun),
    sharding_rule=(
        "r c k q h, r c k s h, r c k s h, r c s, r c k q, r c k q h, r c k q"
        " -> r c k q h, r c k s h, r c k s h"
    ),
    need_replication_factors=("c", "q", "h", "s"),
)
