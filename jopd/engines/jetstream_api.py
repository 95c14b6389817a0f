"""JetStream's modules, imported without what importing them does to the process.

JetStream 0.2.2 needs `jax.tree_map`, which JAX has removed; its orchestrator puts a handler at
DEBUG on the root logger; and it logs through the root logger several times per decode block, which
costs a quarter of its speed when heard. What of ours uses JetStream imports it from here.
"""

import logging

import jax

jax.__dict__.setdefault("tree_map", jax.tree.map)
_root = logging.getLogger()
_level, _handlers = _root.level, list(_root.handlers)

from jetstream.core import orchestrator  # noqa: E402 - needs jax.tree_map
from jetstream.core.utils.return_sample import ReturnSample  # noqa: E402 - needs jax.tree_map
from jetstream.engine import engine_api, tokenizer_api  # noqa: E402 - as above

_root.setLevel(_level)
for _handler in list(_root.handlers):
    if _handler not in _handlers:
        _root.removeHandler(_handler)

logger = logging.getLogger("jetstream")
logger.setLevel(logging.WARNING)
orchestrator.__dict__["logging"] = logger  # its messages go through this logger, not the root's

__all__ = [
    "ReturnSample",
    "engine_api",
    "logger",
    "orchestrator",
    "tokenizer_api",
]
