"""What the JetStream engine keeps on its devices from step to step, and the block it delivers."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from jopd.engines.jetstream_settings import STOP_IDS_WIDTH, JetStreamSettings
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import KVCache, init_cache


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """How a response is sampled and ended; of one request, or stacked over the rows.

    Attributes:
      seed: [2] 64 bits of seed.
      temperature: [] of sampling; 0 is greedy.
      max_tokens: [] limit of the response.
      stop_ids: [STOP_IDS_WIDTH] ids that end it, padded with -1.
      version: [] policy version of the weights that compute it.
    """

    seed: Any
    temperature: Any
    max_tokens: Any
    stop_ids: Any
    version: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The token drawn last in each row, and its log-prob at temperature 1.

    Attributes:
      token: [rows] id.
      logprob: [rows] nats.
    """

    token: Any
    logprob: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeState:
    """Everything that changes from step to step. A row is one place of the cache.

    Attributes:
      cache: keys and values of every row.
      orders: the request of every row.
      drawn: the token of every row that was drawn but neither delivered nor computed.
      position: [rows] where that token belongs in the cache.
      index: [rows] its index in the response.
      active: [rows] there is such a token; rows without one are not computed for.
    """

    cache: KVCache
    orders: Orders
    drawn: Draws
    position: Any
    index: Any
    active: Any


def init_state(*, config: DecoderConfig, settings: JetStreamSettings) -> DecodeState:
    """A state of `settings.slots` rows without a request."""
    rows = settings.slots
    zeros = jnp.zeros(rows, jnp.int32)
    return DecodeState(
        cache=init_cache(config, rows, settings.max_context, settings.cache_dtype),
        orders=Orders(
            seed=jnp.zeros((rows, 2), jnp.uint32),
            temperature=jnp.zeros(rows, jnp.float32),
            max_tokens=zeros,
            stop_ids=jnp.full((rows, STOP_IDS_WIDTH), -1, jnp.int32),
            version=zeros,
        ),
        drawn=Draws(token=zeros, logprob=jnp.zeros(rows, jnp.float32)),
        position=zeros,
        index=zeros,
        active=jnp.zeros(rows, bool),
    )


def begin(state, cache, drawn, row, length, orders) -> DecodeState:
    """The state with a request at its first token in `row`."""

    def put(rows, one):
        return rows.at[row].set(one)

    return DecodeState(
        cache=cache,
        orders=jax.tree.map(put, state.orders, orders),
        drawn=jax.tree.map(put, state.drawn, drawn),
        position=put(state.position, length),
        index=put(state.index, 0),
        active=put(state.active, True),
    )


def unfinished(state: DecodeState) -> Bool[Array, " rows"]:
    """True where the drawn token does not end the response."""
    stopped = jnp.any(state.drawn.token[:, None] == state.orders.stop_ids, axis=1)
    return state.active & ~stopped & (state.index + 1 < state.orders.max_tokens)
