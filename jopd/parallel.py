"""Where arrays live: meshes, rules from parameter paths to shardings, and moves between meshes.

Models know nothing of this file: shardings are applied from outside, by the path of each parameter.
"""

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jopd.types import Params

Device = Any  # jax.Device, which type checkers take for a variable
Rules = tuple[tuple[str, PartitionSpec], ...]

# First match wins. A pattern must match a whole path or whole trailing parts of one, so that the
# same rules also place an optimizer's moments ("0/mu/embed/embedding"). A leading None is the layer
# axis.
DECODER_RULES: Rules = (
    (r"embed/embedding", PartitionSpec("tensor", "fsdp")),
    (r"head/kernel", PartitionSpec("tensor", "fsdp")),
    (r"attention/(query|key|value)/kernel", PartitionSpec(None, "fsdp", "tensor", None)),
    (r"attention/(query|key|value)/bias", PartitionSpec(None, "tensor", None)),
    (r"attention/output/kernel", PartitionSpec(None, "tensor", None, "fsdp")),
    (r"mlp/(gate|up)/kernel", PartitionSpec(None, "fsdp", "tensor")),
    (r"mlp/down/kernel", PartitionSpec(None, "tensor", "fsdp")),
    (r"(input_norm|post_norm|query_norm|key_norm|final_norm)/scale", PartitionSpec()),
)


def make_mesh(devices: Sequence[Device], axes: Mapping[str, int]) -> Mesh:
    """A mesh over the devices in the order given; the last axis joins neighbours.

    Args:
      devices: as many as the axes' sizes multiply to.
      axes: name and size of each axis, outermost first, for example {"fsdp": 4, "tensor": 2}.

    Raises:
      ValueError: a size is below one, or the sizes do not multiply to the number of devices.
    """
    sizes = tuple(axes.values())
    if min(sizes, default=0) < 1 or math.prod(sizes) != len(devices):
        raise ValueError(
            f"mesh axes must be positive and multiply to the number of devices, "
            f"got {dict(axes)} for {len(devices)} devices"
        )
    grid = np.asarray(devices, dtype=object).reshape(sizes)
    return Mesh(grid, tuple(axes), axis_types=(AxisType.Auto,) * len(sizes))


def param_shardings(abstract_params: Params, mesh: Mesh, rules: Rules = DECODER_RULES) -> Params:
    """The sharding of every parameter, by the first rule that matches its path.

    A dimension that its mesh axis does not divide (KV heads, an odd vocabulary) is replicated along
    that axis. A scalar needs no rule: there is nothing to split.

    Args:
      abstract_params: tree of anything with a shape.
      mesh: has every axis that the rules name.
      rules: (path pattern, spec) in order of precedence.

    Raises:
      ValueError: parameters match no rule, or a rule does not fit; all of them at once.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(abstract_params)
    problems, shardings = [], []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        spec = PartitionSpec() if not leaf.shape else _matching_spec(name, rules)
        problem = _misfit(leaf.shape, spec, mesh)
        if spec is None or problem:
            problems.append(f"{name} {leaf.shape}: {problem}")
        else:
            shardings.append(NamedSharding(mesh, _divisible(leaf.shape, spec, mesh)))
    if problems:
        raise ValueError("parameters without a sharding:\n  " + "\n  ".join(problems))
    return jax.tree.unflatten(structure, shardings)


def _matching_spec(name: str, rules: Rules) -> PartitionSpec | None:
    for pattern, spec in rules:
        if re.fullmatch(rf"(?:.*/)?(?:{pattern})", name):
            return spec
    return None


def _misfit(shape: tuple[int, ...], spec: PartitionSpec | None, mesh: Mesh) -> str:
    """Why the spec cannot place an array of this shape on the mesh, or nothing."""
    if spec is None:
        return "matches no rule"
    if len(spec) > len(shape):
        return f"has fewer dimensions than its rule {spec}"
    absent = {axis for entry in spec for axis in _axes(entry)} - set(mesh.axis_names)
    return f"its rule names axes {sorted(absent)} that the mesh lacks" if absent else ""


def _divisible(shape: tuple[int, ...], spec: PartitionSpec, mesh: Mesh) -> PartitionSpec:
    """The spec without the entries whose axes do not divide their dimension."""
    ways = [math.prod(mesh.shape[axis] for axis in _axes(entry)) for entry in spec]
    return PartitionSpec(
        *(
            None if size % way else entry
            for size, entry, way in zip(shape, spec, ways, strict=False)
        )
    )


def _axes(entry: Any) -> tuple[str, ...]:
    if entry is None:
        return ()
    return (entry,) if isinstance(entry, str) else tuple(entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSplit:
    """Which devices of this host belong to whom.

    Attributes:
      learner: devices of the learner mesh.
      engine: devices of the student's engine.
      teacher: devices of the teacher's scorer.
      idle: devices that nobody uses.
    """

    learner: tuple[Device, ...]
    engine: tuple[Device, ...]
    teacher: tuple[Device, ...]
    idle: tuple[Device, ...]


def split_devices(
    devices: Sequence[Device], *, learner: int, engine: int, teacher: int
) -> DeviceSplit:
    """Gives the first devices to the learner, the next to the engine, the next to the teacher.

    With one device all three share it. An engine of 0 devices shares the learner's, a teacher of 0
    the engine's.

    Args:
      devices: the local devices, in order.
      learner: devices asked for the learner, at least 1.
      engine: devices asked for the engine.
      teacher: devices asked for the teacher.

    Raises:
      ValueError: a count is out of range, or more devices are asked for than there are.
    """
    asked = f"learner={learner}, engine={engine}, teacher={teacher}"
    if learner < 1 or engine < 0 or teacher < 0:
        raise ValueError(f"the learner needs a device and no count may be negative, got {asked}")
    if len(devices) == 1 and max(learner, engine, teacher) == 1:
        one = tuple(devices)
        return DeviceSplit(learner=one, engine=one, teacher=one, idle=())
    total = learner + engine + teacher
    if total > len(devices):
        raise ValueError(
            f"{asked} ask for {total} devices and this host has {len(devices)}; "
            f"engine=0 shares the learner's devices, teacher=0 the engine's"
        )
    of_learner = tuple(devices[:learner])
    of_engine = tuple(devices[learner : learner + engine]) or of_learner
    of_teacher = tuple(devices[learner + engine : total]) or of_engine
    return DeviceSplit(
        learner=of_learner, engine=of_engine, teacher=of_teacher, idle=tuple(devices[total:])
    )


def cast_matrices(params: Params, dtype: Any) -> Params:
    """Parameters whose matrices have a type: what programs would cast at every call is cast once.

    Norms and biases stay as they are.
    """

    def cast(path: Any, leaf: Any) -> Any:
        return leaf.astype(_type_in_engines(path, leaf, dtype))

    return jax.tree_util.tree_map_with_path(cast, params)


def reshard(params: Params, shardings: Params, dtype: Any) -> Params:
    """Copies parameters to other devices, layouts and types; the arrays of `params` stay untouched.

    Each leaf is cast where it lies, which halves what travels when float32 masters become bfloat16,
    and then moved. The result never shares memory with `params`, even where nothing had to change:
    a later update that donates `params` cannot alter what an engine reads.

    Args:
      params: arrays that this process can address whole.
      shardings: tree of the target shardings.
      dtype: type of the result's matrices; norms and biases keep theirs.
    """

    def move(path: Any, leaf: jax.Array, sharding: jax.sharding.Sharding) -> jax.Array:
        return jax.device_put(_cast_copy(leaf, _type_in_engines(path, leaf, dtype)), sharding)

    return jax.tree_util.tree_map_with_path(move, params, shardings)


def _type_in_engines(path: Any, leaf: Any, dtype: Any) -> Any:
    """`dtype` for what takes part in matrix products, its own type for any other parameter."""
    return jnp.dtype(dtype) if path[-1].key in ("kernel", "embedding") else leaf.dtype


@functools.partial(jax.jit, static_argnames="dtype")
def _cast_copy(leaf: jax.Array, dtype: Any) -> jax.Array:
    return jnp.array(leaf, dtype, copy=True)
