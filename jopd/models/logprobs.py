"""Log-probs of given tokens without whole logits, forward and backward."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

_product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


def token_logprobs(
    hidden: Float[Array, "B L D"],
    head: Float[Array, "V D"],
    targets: Int[Array, "B L"],
    mask: Bool[Array, "B L"],
    *,
    chunk_size: int,
) -> Float[Array, "B L"]:
    """Natural log-probs of `targets` at temperature 1; 0 where the mask is False.

    In every row the places where the mask is True are brought to the front, and only as many chunks
    of columns are computed as the fullest row needs.

    Args:
      hidden: hidden states after the final norm, each at the place that predicts its target.
      head: output matrix; cast to the type of `hidden`, its gradient summed in float32.
      targets: ids.
      mask: True where the log-prob is wanted.
      chunk_size: columns whose logits exist at one time, as [B, chunk_size, V] in float32.
    """
    chunk = min(chunk_size, hidden.shape[1])
    return jnp.where(mask, _masked_logprobs(hidden, head, targets, mask, chunk), 0.0)


def last_logits(hidden: Float[Array, "B D"], head: Float[Array, "V D"]) -> Float[Array, "B V"]:
    """Float32 logits of one hidden state per row."""
    return _product("BD,VD->BV", hidden, head.astype(hidden.dtype))


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _masked_logprobs(hidden, head, targets, mask, chunk):
    return _forward(hidden, head, targets, mask, chunk)[0]


def _forward(hidden, head, targets, mask, chunk):
    """Log-probs in the order of the tokens, and what the backward pass needs."""
    order, place = _compaction(mask)
    hidden, targets = _compact(hidden, order, chunk), _compact(targets, order, chunk)
    chunks = _chunks(mask, chunk)
    narrow_head = head.astype(hidden.dtype)

    def one_chunk(index, carry):
        logits = _logits(hidden, narrow_head, index, chunk)
        chosen = jnp.sum(jnp.where(_is_target(targets, logits, index), logits, 0.0), axis=-1)
        logsumexp = jax.nn.logsumexp(logits, axis=-1)
        return tuple(
            _put(whole, piece, index)
            for whole, piece in zip(carry, (chosen - logsumexp, logsumexp), strict=True)
        )

    zeros = jnp.zeros(targets.shape, jnp.float32)
    logprobs, logsumexp = jax.lax.fori_loop(0, chunks, one_chunk, (zeros, zeros))
    kept = (hidden, head, targets, logsumexp, place, mask)
    return jnp.take_along_axis(logprobs, place, axis=1), kept


def _backward(chunk, kept, cotangent):
    """Cotangents of hidden and head: with p the softmax, d logits = cotangent * (one-hot - p)."""
    hidden, head, targets, logsumexp, place, mask = kept
    order, _ = _compaction(mask)
    cotangent = _compact(jnp.where(mask, cotangent, 0.0), order, chunk)
    narrow_head = head.astype(hidden.dtype)

    def one_chunk(index, carry):
        d_hidden, d_head = carry
        logits = _logits(hidden, narrow_head, index, chunk)
        softmax = jnp.exp(logits - _take(logsumexp, index, chunk)[:, :, None])
        one_hot = _is_target(targets, logits, index).astype(jnp.float32)
        d_logits = _take(cotangent, index, chunk)[:, :, None] * (one_hot - softmax)
        d_logits = d_logits.astype(hidden.dtype)
        piece = _product("BLV,VD->BLD", d_logits, narrow_head)
        d_head = d_head + _product("BLV,BLD->VD", d_logits, _take(hidden, index, chunk))
        return _put(d_hidden, piece.astype(hidden.dtype), index), d_head

    start = (jnp.zeros_like(hidden), jnp.zeros(head.shape, jnp.float32))
    d_hidden, d_head = jax.lax.fori_loop(0, _chunks(mask, chunk), one_chunk, start)
    d_hidden = jnp.take_along_axis(d_hidden, place[:, :, None], axis=1)
    return d_hidden, d_head.astype(head.dtype), None, None


_masked_logprobs.defvjp(_forward, _backward)


def _compaction(mask: Bool[Array, "B L"]) -> tuple[Int[Array, "B L"], Int[Array, "B L"]]:
    """Which place each compact column comes from, and which column each place goes to."""
    order = jnp.argsort(~mask, axis=1, stable=True)
    kept, left = jnp.cumsum(mask, axis=1), jnp.cumsum(~mask, axis=1)
    return order, jnp.where(mask, kept, kept[:, -1:] + left) - 1


def _compact(x: Array, order: Int[Array, "B L"], chunk: int) -> Array:
    """`x` in compact order, its columns padded to whole chunks."""
    trailing = x.ndim - 2
    moved = jnp.take_along_axis(x, order.reshape(order.shape + (1,) * trailing), axis=1)
    return jnp.pad(moved, ((0, 0), (0, -x.shape[1] % chunk)) + ((0, 0),) * trailing)


def _chunks(mask: Bool[Array, "B L"], chunk: int) -> Int[Array, ""]:
    """How many chunks the fullest row fills."""
    return (jnp.max(jnp.sum(mask, axis=1)) + chunk - 1) // chunk


def _take(x: Array, index, chunk: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(x, index * chunk, chunk, axis=1)


def _put(whole: Array, piece: Array, index) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(whole, piece, index * piece.shape[1], axis=1)


def _logits(hidden, head, index, chunk) -> Float[Array, "B chunk V"]:
    return _product("BLD,VD->BLV", _take(hidden, index, chunk), head)


def _is_target(targets, logits, index) -> Bool[Array, "B chunk V"]:
    """True at each target; comparing, not indexing, keeps a split vocabulary split."""
    chosen = _take(targets, index, logits.shape[1])[:, :, None]
    return chosen == jnp.arange(logits.shape[2], dtype=targets.dtype)[None, None, :]
