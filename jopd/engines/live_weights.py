"""The weights an engine computes with, replaced as a whole between turns."""

from typing import Any

import jax
from jax.sharding import Mesh, SingleDeviceSharding

from jopd.parallel import cast_matrices, param_shardings
from jopd.types import Params, WeightSnapshot


class LiveWeights:
    """Holds the current snapshot; read once per program, so weights and version never mix.

    Whoever publishes must not donate the arrays later: they are used where they lie whenever place
    and type already fit.

    Attributes:
      device: where everything lies when there is no mesh: where the first weights lay.
      current: the snapshot that programs launched from now on use.
    """

    def __init__(self, snapshot: WeightSnapshot, *, dtype: str, mesh: Mesh | None):
        self._dtype = dtype
        self._mesh = mesh
        self.device = _device_of(snapshot.params)
        self.current = self.place(snapshot)

    def place(self, snapshot: WeightSnapshot) -> WeightSnapshot:
        """The snapshot on the engine's devices, matrices in the compute type; norms keep theirs."""
        params = cast_matrices(snapshot.params, self._dtype)
        return WeightSnapshot(
            params=jax.device_put(params, self._shardings(params)), version=snapshot.version
        )

    def _shardings(self, params: Params) -> Any:
        if self._mesh is None:
            return SingleDeviceSharding(self.device)
        return param_shardings(params, self._mesh)


def _device_of(params: Params) -> Any:
    leaf = jax.tree.leaves(params)[0]
    return next(iter(leaf.devices())) if isinstance(leaf, jax.Array) else jax.devices()[0]
