"""The programs of `decode_programs`, compiled: shardings, donation, and how many there are."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from jopd.engines import decode_programs
from jopd.engines.decode_state import DecodeState, Draws, init_state
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import KVCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Jitted functions; `decode_programs` has them under the same names.

    Attributes:
      init: an empty decode state.
      prefill: a prompt's keys, values and first token.
      insert: the state with a prefilled prompt in a row; donates the state.
      resume: the state with a prompt in a row, its beginning copied; donates the state.
      decode: the state after a block, and the block; donates the state.
    """

    init: Callable[[], DecodeState]
    prefill: Callable[..., tuple[KVCache, Draws]]
    insert: Callable[..., DecodeState]
    resume: Callable[..., DecodeState]
    decode: Callable[..., tuple[DecodeState, Array]]

    def compiled(self) -> int:
        """How many programs have been compiled, over all shapes."""
        jitted: Any = (self.init, self.prefill, self.insert, self.resume, self.decode)
        return sum(function._cache_size() for function in jitted)


def make_programs(
    config: DecoderConfig, settings: JetStreamSettings, mesh: Mesh | None
) -> Programs:
    """The programs of one model and one set of sizes; engines that agree on both share them."""
    sizes = replace(settings, prefill_buckets=(), reuse_prefixes=True, deadline_s=0.0)
    return _make_programs(config, sizes, mesh)


@functools.lru_cache(maxsize=16)
def _make_programs(
    config: DecoderConfig, settings: JetStreamSettings, mesh: Mesh | None
) -> Programs:
    bind = functools.partial(functools.partial, config=config, settings=settings)
    state, cache, whole = _shardings(config, settings, mesh)
    results = (state, whole)
    return Programs(
        init=jax.jit(bind(init_state), out_shardings=state),
        prefill=jax.jit(bind(decode_programs.prefill), out_shardings=(cache, whole)),
        insert=jax.jit(decode_programs.insert, out_shardings=state, donate_argnums=0),
        resume=jax.jit(bind(decode_programs.resume), out_shardings=state, donate_argnums=1),
        decode=jax.jit(bind(decode_programs.decode), out_shardings=results, donate_argnums=1),
    )


def _shardings(
    config: DecoderConfig, settings: JetStreamSettings, mesh: Mesh | None
) -> tuple[Any, Any, Any]:
    """Of a state, a cache and the rest: KV heads are split over "tensor" where they divide."""
    if mesh is None:
        return None, None, None
    whole = NamedSharding(mesh, PartitionSpec())
    divides = config.num_kv_heads % mesh.shape["tensor"] == 0
    heads = NamedSharding(mesh, PartitionSpec(None, None, None, "tensor", None))
    abstract = jax.eval_shape(lambda: init_state(config=config, settings=settings))
    cache = jax.tree.map(lambda _: heads if divides else whole, abstract.cache)
    state = jax.tree.map(lambda _: whole, abstract)
    return replace(state, cache=cache), cache, whole
