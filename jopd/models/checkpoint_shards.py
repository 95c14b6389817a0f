"""One parameter from checkpoint files to its devices: only what each shard needs is read."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jopd.models.checkpoint_files import TensorReader
from jopd.models.checkpoint_keys import TensorLayout, Window


def load_sharded(
    reader: TensorReader,
    layout: TensorLayout,
    shape: jax.ShapeDtypeStruct,
    sharding: jax.sharding.Sharding,
    *,
    buffer_bytes: int,
) -> jax.Array:
    """A parameter in its sharding; a shard that several devices hold is read once.

    Args:
      reader: the open files.
      layout: how the parameter is stored.
      shape: shape and type wanted; vocabulary rows that the files lack become 0.
      sharding: where it goes.
      buffer_bytes: so many bytes of a shard are on the host at once, at least one layer.
    """
    holders: dict[tuple[tuple[int, int], ...], list[Any]] = {}
    for device, index in sharding.addressable_devices_indices_map(shape.shape).items():
        parts = zip(index or (), shape.shape, strict=True)
        spans = [part.indices(size)[:2] for part, size in parts]
        holders.setdefault(tuple(spans), []).append(device)
    shards = []
    for spans, devices in holders.items():
        window = tuple(slice(start, stop) for start, stop in spans)
        if layout.stacked:
            shards += _load_stack(reader, layout, window, shape.dtype, devices, buffer_bytes)
        else:
            block = _read(reader, layout, layout.name, window, shape.dtype)
            shards += [jax.device_put(block, device) for device in devices]
    return jax.make_array_from_single_device_arrays(shape.shape, sharding, shards)


def _load_stack(
    reader: TensorReader,
    layout: TensorLayout,
    window: Window,
    dtype: Any,
    devices: list[Any],
    buffer_bytes: int,
) -> list[jax.Array]:
    """A window of a stacked parameter on each device, assembled there in groups of layers."""
    layers, inner = range(window[0].start, window[0].stop), window[1:]
    lengths = [span.stop - span.start for span in inner]
    group = max(1, buffer_bytes // (math.prod(lengths) * np.dtype(dtype).itemsize))
    if group >= len(layers):
        block = _read_layers(reader, layout, layers, inner, dtype)
        return [jax.device_put(block, device) for device in devices]
    arrays = [jnp.zeros((len(layers), *lengths), dtype, device=device) for device in devices]
    for start in range(0, len(layers), group):
        block = _read_layers(reader, layout, layers[start : start + group], inner, dtype)
        arrays = [
            _write(array, jax.device_put(block, device), start)
            for array, device in zip(arrays, devices, strict=True)
        ]
        jax.block_until_ready(arrays)  # otherwise transfers in flight would keep many blocks alive
    return arrays


@functools.partial(jax.jit, donate_argnums=0)
def _write(stack: jax.Array, block: jax.Array, start: int | jax.Array) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(stack, block, start, axis=0)


def _read_layers(
    reader: TensorReader, layout: TensorLayout, layers: range, inner: Window, dtype: Any
) -> np.ndarray:
    block = np.empty((len(layers), *(span.stop - span.start for span in inner)), dtype)
    for place, layer in enumerate(layers):
        block[place] = _read(reader, layout, layout.name.format(layer=layer), inner, dtype)
    return block


def _read(
    reader: TensorReader, layout: TensorLayout, name: str, window: Window, dtype: Any
) -> np.ndarray:
    """A window of one stored tensor in our layout and type; rows that it lacks are 0."""
    lengths = tuple(span.stop - span.start for span in window)
    stored_window = layout.stored_window(window)
    if any(span.start == span.stop for span in stored_window):
        return np.zeros(lengths, dtype)
    ours = layout.to_ours(reader.read(name, stored_window), window)
    if ours.shape == lengths:
        return ours.astype(dtype)
    block = np.zeros(lengths, dtype)
    block[: len(ours)] = ours
    return block
