"""The device side of the teacher scorer: frozen weights, the KV pool, one program per shape."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import KVCache, extend, init_cache, output_head
from jopd.models.logprobs import token_logprobs
from jopd.parallel import cast_matrices, param_shardings
from jopd.types import Params


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreBatch:
    """Stretches of tokens to run through the model, one per row; NumPy arrays.

    Attributes:
      sources: [B] int32 pool row whose KV is read.
      destinations: [B] int32 pool row that is written; past the pool's end for padding rows.
      tokens: [B, T] int32 ids.
      positions: [B, T] int32 place of each id in its sequence; past the context for padding.
      targets: [B, T] int32, the id that follows.
      mask: [B, T] True where the log-prob of the target is wanted.
    """

    sources: Any
    destinations: Any
    tokens: Any
    positions: Any
    targets: Any
    mask: Any


def empty_batch(rows: int, length: int, *, pool_rows: int, context: int) -> ScoreBatch:
    """A batch of padding, to be filled in."""
    return ScoreBatch(
        sources=np.zeros(rows, np.int32),
        destinations=np.arange(pool_rows, pool_rows + rows, dtype=np.int32),
        tokens=np.zeros((rows, length), np.int32),
        positions=np.full((rows, length), context, np.int32),
        targets=np.zeros((rows, length), np.int32),
        mask=np.zeros((rows, length), bool),
    )


class ScoreProgram:
    """Runs score batches against a pool of KV rows that lives on the model's devices.

    Not thread-safe: the scorer's worker is its only user.
    """

    def __init__(
        self,
        params: Params,
        config: DecoderConfig,
        *,
        pool_rows: int,
        pool_length: int,
        head_chunk: int,
        compute_dtype: str,
        cache_dtype: str,
        mesh: Mesh,
    ):
        params = cast_matrices(params, compute_dtype)
        self._params = jax.device_put(params, param_shardings(params, mesh))
        self._pool_sharding = _pool_sharding(config, mesh)
        new_pool = functools.partial(init_cache, config, pool_rows, pool_length, cache_dtype)
        self._pool = jax.jit(new_pool, out_shardings=self._pool_sharding)()
        self._step = functools.partial(
            _step,
            config=config,
            head_chunk=head_chunk,
            compute_dtype=compute_dtype,
            pool_sharding=self._pool_sharding,
        )
        self._shapes: set[tuple[int, int, int]] = set()

    @property
    def shapes(self) -> frozenset[tuple[int, int, int]]:
        """(rows, length, context) of every batch so far: each has a program of its own."""
        return frozenset(self._shapes)

    def launch(self, batch: ScoreBatch, *, context: int) -> Float[Array, "B T"]:
        """Starts one batch and returns its log-probs, which may still be under way.

        Args:
          batch: at most `context` tokens of a sequence are read or written.
          context: leading part of the pool's rows that takes part.
        """
        self._shapes.add((*batch.tokens.shape, context))
        logprobs, self._pool = self._step(self._params, self._pool, batch, context=context)
        return logprobs


@functools.partial(
    jax.jit,
    donate_argnames="pool",
    static_argnames=("config", "context", "head_chunk", "compute_dtype", "pool_sharding"),
)
def _step(
    params: Params,
    pool: KVCache,
    batch: ScoreBatch,
    *,
    config: DecoderConfig,
    context: int,
    head_chunk: int,
    compute_dtype: str,
    pool_sharding: NamedSharding,
) -> tuple[Float[Array, "B T"], KVCache]:
    """Copies the rows out of the pool, extends and scores them, and writes them back in place."""
    reused = jnp.arange(context)[None, :] < batch.positions[:, :1]

    def read(whole):
        """What other sequences left behind is zeroed: a NaN among it would spread, even unread."""
        part = whole[:, batch.sources, :context]
        return jnp.where(reused[None, :, :, None, None], part, jnp.zeros((), part.dtype))

    cache = jax.tree.map(read, pool)
    hidden, cache = extend(
        params, config, batch.tokens, batch.positions, cache, compute_dtype=compute_dtype
    )
    logprobs = token_logprobs(  # as one row: the chunks are filled from the whole batch
        hidden.reshape(1, -1, hidden.shape[-1]),
        output_head(params, config),
        batch.targets.reshape(1, -1),
        batch.mask.reshape(1, -1),
        chunk_size=head_chunk,
    )

    def write(whole, part):
        rows = whole.at[:, batch.destinations, :context]
        written = rows.set(part, mode="drop", unique_indices=True)
        return jax.lax.with_sharding_constraint(written, pool_sharding)

    return logprobs.reshape(batch.tokens.shape), jax.tree.map(write, pool, cache)


def _pool_sharding(config: DecoderConfig, mesh: Mesh) -> NamedSharding:
    """KV heads lie where their projections lie, or everywhere if the axis does not divide them."""
    split = config.num_kv_heads % mesh.shape["tensor"] == 0
    return NamedSharding(mesh, PartitionSpec(None, None, None, "tensor" if split else None, None))
