"""Log-probs of given tokens without whole logits."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def token_logprobs(
    hidden: Float[Array, "B L D"],
    head: Float[Array, "V D"],
    targets: Int[Array, "B L"],
    mask: Bool[Array, "B L"],
    *,
    chunk_size: int,
) -> Float[Array, "B L"]:
    """Natural log-probs of `targets` at temperature 1; 0 where the mask is False.

    Args:
      hidden: hidden states after the final norm, each at the place that predicts its target.
      head: output matrix.
      targets: ids.
      mask: True where the log-prob is wanted.
      chunk_size: columns whose logits exist at one time.
    """
    pieces = [
        jax.checkpoint(_chunk_logprobs)(
            hidden[:, start : start + chunk_size], head, targets[:, start : start + chunk_size]
        )
        for start in range(0, hidden.shape[1], chunk_size)
    ]
    return jnp.where(mask, jnp.concatenate(pieces, axis=1), 0.0)


def last_logits(hidden: Float[Array, "B D"], head: Float[Array, "V D"]) -> Float[Array, "B V"]:
    """Float32 logits of one hidden state per row."""
    return jnp.einsum(
        "BD,VD->BV", hidden, head.astype(hidden.dtype), preferred_element_type=jnp.float32
    )


def _chunk_logprobs(hidden, head, targets):
    logits = jnp.einsum(
        "BLD,VD->BLV", hidden, head.astype(hidden.dtype), preferred_element_type=jnp.float32
    )
    chosen = jnp.take_along_axis(logits, targets[:, :, None], axis=-1)[:, :, 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)
