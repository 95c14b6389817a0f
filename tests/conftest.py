"""Devices, strictness and fixtures of the whole suite."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["HF_HUB_OFFLINE"] = "1"

from jaxtyping import install_import_hook

install_import_hook("jopd", "beartype.beartype")

import jax  # noqa: E402 - after the hook
import pytest  # noqa: E402 - after the hook

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key() -> jax.Array:
    """A fixed random key."""
    return jax.random.key(0)
