"""The channel back: student weights and their version, published together.

Called by the learner's thread only; engines take a snapshot over in their own time. A snapshot is
one frozen object, so weights and version are never read apart.
"""

from collections.abc import Callable, Sequence

from jopd.types import Params, WeightSnapshot


class WeightStore:
    """The newest published weights, and the engines that are told of them.

    Attributes:
      to_engine: copies the learner's params to an engine's devices and dtype; it must return arrays
        that a later donated update cannot touch.
      subscribers: called with every snapshot, in order.
    """

    def __init__(
        self,
        snapshot: WeightSnapshot,
        *,
        to_engine: Callable[[Params], Params],
        subscribers: Sequence[Callable[[WeightSnapshot], None]],
    ):
        self._latest = snapshot
        self._to_engine = to_engine
        self._subscribers = tuple(subscribers)

    def latest(self) -> WeightSnapshot:
        """The snapshot that was published last."""
        return self._latest

    def publish(self, params: Params, *, version: int) -> None:
        """Makes `params` the weights of all turns admitted from now on.

        Raises:
          ValueError: the version does not grow.
        """
        if version <= self._latest.version:
            raise ValueError(
                f"version {version} was published after version {self._latest.version}; "
                "versions must grow"
            )
        self._latest = WeightSnapshot(params=self._to_engine(params), version=version)
        for subscriber in self._subscribers:
            subscriber(self._latest)
