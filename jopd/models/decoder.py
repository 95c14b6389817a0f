"""Decoder of the Qwen2, Qwen3 and Llama families: parameters and tokens in, hidden states out.

Parameters are a plain nested dict with the layers stacked on a leading axis; the modules give them
their meaning and are rebuilt from a cached graph definition inside every call.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jopd.models.architectures import DecoderConfig
from jopd.models.attention import Backend, attend, cached_attention
from jopd.models.layers import INIT_STD, SAVED, GatedMLP, Projection, RMSNorm, rotary_angles, rotate
from jopd.types import Params


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, kw_only=True)
class KVCache:
    """Keys and values of the tokens seen so far, all layers; index s holds position s.

    Attributes:
      keys: [n, B, S, K, H] rotated keys.
      values: [n, B, S, K, H] values.
    """

    keys: Any
    values: Any


class Attention(nnx.Module):
    """Grouped-query self-attention with rotary positions, up to the mixing of values."""

    def __init__(self, config: DecoderConfig):
        width, head = config.hidden_size, config.head_dim
        heads, kv_heads = (config.num_heads, head), (config.num_kv_heads, head)
        bias, kv_bias = (heads, kv_heads) if config.qkv_bias else ((), ())
        self.query = Projection("BLD,DNH->BLNH", (width, *heads), bias=bias)
        self.key = Projection("BLD,DKH->BLKH", (width, *kv_heads), bias=kv_bias)
        self.value = Projection("BLD,DKH->BLKH", (width, *kv_heads), bias=kv_bias)
        self.output = Projection("BLNH,NHD->BLD", (*heads, width))
        self.qk_norm = config.qk_norm
        if config.qk_norm:
            self.query_norm = RMSNorm(head, config.rms_norm_eps)
            self.key_norm = RMSNorm(head, config.rms_norm_eps)
        scaling = config.rope_scaling
        self.rotary_scale = 1.0 if scaling is None else scaling.attention_factor

    def project(
        self, x: Float[Array, "B L D"], angles: Float[Array, "B L half"]
    ) -> tuple[Float[Array, "B L N H"], Float[Array, "B L K H"], Float[Array, "B L K H"]]:
        """Rotated queries, rotated keys, values."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        if self.qk_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        query, key = (rotate(x, angles, self.rotary_scale) for x in (query, key))
        return query, key, value


class Block(nnx.Module):
    """One pre-norm decoder block; `mix` is the attention between its two halves."""

    def __init__(self, config: DecoderConfig):
        self.input_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = Attention(config)
        self.post_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = GatedMLP(config)

    def __call__(
        self, x: Float[Array, "B L D"], angles: Float[Array, "B L half"], mix: Any
    ) -> tuple[Float[Array, "B L D"], Any]:
        """The residual stream after the block, and what else `mix(query, key, value)` returned."""
        mixed, kept = mix(*self.attention.project(self.input_norm(x), angles))
        x = x + self.attention.output(mixed)
        return x + self.mlp(self.post_norm(x)), kept


@functools.lru_cache(maxsize=64)
def _block_parts(config: DecoderConfig) -> tuple[Any, Params]:
    """Graph definition and abstract parameters of one block."""
    graph, state = nnx.split(nnx.eval_shape(lambda: Block(config)))
    return graph, nnx.to_pure_dict(state)


@functools.lru_cache(maxsize=64)
def _norm_graph(config: DecoderConfig) -> Any:
    return nnx.split(nnx.eval_shape(lambda: RMSNorm(config.hidden_size, config.rms_norm_eps)))[0]


def abstract_params(config: DecoderConfig, dtype: Any = jnp.float32) -> Params:
    """The tree of `init_params` as shapes and types."""

    def stacked(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((config.num_layers, *leaf.shape), dtype)

    table = jax.ShapeDtypeStruct((config.vocab_size, config.hidden_size), dtype)
    params = {
        "embed": {"embedding": table},
        "layers": jax.tree.map(stacked, _block_parts(config)[1]),
        "final_norm": {"scale": jax.ShapeDtypeStruct((config.hidden_size,), dtype)},
    }
    return params if config.tie_embeddings else params | {"head": {"kernel": table}}


def init_params(config: DecoderConfig, key: PRNGKeyArray, dtype: Any = jnp.float32) -> Params:
    """Random parameters: matrices normal with deviation INIT_STD, norms 1, biases 0."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(abstract_params(config, dtype))
    names = [jax.tree_util.keystr(path[-1:], simple=True) for path, _ in leaves]
    sizes = [
        leaf.size if name in ("kernel", "embedding") else 0
        for name, (_, leaf) in zip(names, leaves, strict=True)
    ]
    # One draw for all: a random generator is slow to compile, and each shape would be another.
    draws = INIT_STD * jax.random.normal(key, (sum(sizes),))
    pieces = jnp.split(draws, np.cumsum(sizes)[:-1].tolist())
    values = [
        piece.reshape(leaf.shape) if size else jnp.full(leaf.shape, float(name == "scale"))
        for name, (_, leaf), size, piece in zip(names, leaves, sizes, pieces, strict=True)
    ]
    return jax.tree.unflatten(structure, [value.astype(dtype) for value in values])


def output_head(params: Params, config: DecoderConfig) -> Float[Array, "V D"]:
    """The matrix that turns hidden states into logits."""
    return params["embed"]["embedding"] if config.tie_embeddings else params["head"]["kernel"]


def init_cache(config: DecoderConfig, batch: int, length: int, dtype: Any) -> KVCache:
    """An empty cache for `length` positions of `batch` rows.

    Raises:
      ValueError: `length` passes the model's context limit.
    """
    if length > config.max_positions:
        raise ValueError(
            f"cache length must be <= max_positions = {config.max_positions}, got {length}"
        )
    shape = (config.num_layers, batch, length, config.num_kv_heads, config.head_dim)
    return KVCache(keys=jnp.zeros(shape, dtype), values=jnp.zeros(shape, dtype))


def hidden_states(
    params: Params,
    config: DecoderConfig,
    tokens: Int[Array, "B L"],
    positions: Int[Array, "B L"],
    segment_ids: Int[Array, "B L"],
    *,
    compute_dtype: Any,
    remat: bool = False,
    attention: Backend = "auto",
) -> Float[Array, "B L D"]:
    """Hidden states after the final norm; the one at i predicts token i + 1.

    Args:
      params: see `init_params`; cast to `compute_dtype` layer by layer.
      config: the decoder.
      tokens: ids.
      positions: position of each token inside its document.
      segment_ids: tokens read earlier tokens of their own segment only; 0 where empty.
      compute_dtype: type of activations and matrix operands; norms and softmax are float32.
      remat: keep only each block's input for the backward pass and recompute the rest; without it
        the matrix products are kept too, and only what is cheap is recomputed.
      attention: backend, see `attention.attend`.
    """
    graph, _ = _block_parts(config)
    angles = rotary_angles(config, positions)

    def mix(query, key, value):
        return attend(query, key, value, segment_ids, backend=attention), None

    def block(x, layer):
        return nnx.merge(graph, layer)(x, angles, mix)

    x = _embed(params, tokens, compute_dtype)
    policies = jax.checkpoint_policies
    policy = policies.nothing_saveable if remat else policies.save_only_these_names(SAVED)
    # A scan keeps the recomputation apart from the forward pass: nothing to prevent.
    block = jax.checkpoint(block, policy=policy, prevent_cse=False)
    x, _ = jax.lax.scan(block, x, params["layers"])
    return nnx.merge(_norm_graph(config), params["final_norm"])(x)


def extend(
    params: Params,
    config: DecoderConfig,
    tokens: Int[Array, "B T"],
    positions: Int[Array, "B T"],
    cache: KVCache,
    *,
    compute_dtype: Any,
) -> tuple[Float[Array, "B T D"], KVCache]:
    """Runs further tokens of each row through the decoder, reading and filling the cache.

    The token at position p is written to cache index p and reads the indices <= p of its row. A
    position at or past the cache's length is not written: give it to padding tokens. Donate the
    cache to update it in place.

    Returns:
      Hidden states after the final norm, and the cache with the tokens in it.
    """
    graph, _ = _block_parts(config)
    angles = rotary_angles(config, positions)
    rows = jnp.arange(tokens.shape[0])[:, None]

    def block(carry, layer):
        x, keys, values = carry
        index, weights = layer

        def mix(query, key, value):
            new_keys = keys.at[index, rows, positions].set(key.astype(keys.dtype), mode="drop")
            new_values = values.at[index, rows, positions].set(
                value.astype(values.dtype), mode="drop"
            )
            mixed = cached_attention(query, new_keys, new_values, index, positions)
            return mixed, (new_keys, new_values)

        x, kept = nnx.merge(graph, weights)(x, angles, mix)
        return (x, *kept), None

    x = _embed(params, tokens, compute_dtype)
    layers = (jnp.arange(config.num_layers), params["layers"])
    (x, keys, values), _ = jax.lax.scan(block, (x, cache.keys, cache.values), layers)
    return nnx.merge(_norm_graph(config), params["final_norm"])(x), KVCache(
        keys=keys, values=values
    )


def _embed(params: Params, tokens: Int[Array, "B L"], dtype: Any) -> Float[Array, "B L D"]:
    return jnp.take(params["embed"]["embedding"], tokens, axis=0).astype(dtype)
