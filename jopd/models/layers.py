"""The parts of a decoder block: projections, norm, rotary positions, gated MLP.

Modules say what parameters mean; their first values come from `decoder.init_params`.

Einsum letters of the package: B batch, L length (T queries, S keys), D width, N query heads, K key
and value heads, G = N / K, H head width, F width inside the MLP, V vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from jopd.models.architectures import DecoderConfig, RopeScaling

SAVED = "matrix product"  # checkpoint name of what is worth keeping for the backward pass

INIT_STD = 0.02  # deviation of random matrices
_product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def project(
    equation: str, x: Float[Array, "B L *inputs"], kernel: Float[Array, "..."]
) -> Float[Array, "B L *outputs"]:
    """The einsum of `x` and a kernel, accumulated in float32 and returned in the type of `x`.

    The kernel is cast to the type of `x`; its gradient is summed in float32 and returned in its own
    type, so float32 weights lose nothing to bf16 activations.

    Args:
      equation: "BL<inputs>,<inputs><outputs>->BL<outputs>".
      x: activations.
      kernel: weights.
    """
    return _product(equation, x, kernel.astype(x.dtype)).astype(x.dtype)


def _project_forward(equation, x, kernel):
    return checkpoint_name(project(equation, x, kernel), SAVED), (x, kernel)


def _project_backward(equation, kept, cotangent):
    x, kernel = kept
    operands, out = equation.split("->")
    left, right = operands.split(",")
    d_x = _product(f"{out},{right}->{left}", cotangent, kernel.astype(x.dtype))
    d_kernel = _product(f"{left},{out}->{right}", x, cotangent)
    return d_x.astype(x.dtype), d_kernel.astype(kernel.dtype)


project.defvjp(_project_forward, _project_backward)


class Projection(nnx.Module):
    """A linear map along an einsum equation, with or without a bias."""

    def __init__(self, equation: str, shape: tuple[int, ...], *, bias: tuple[int, ...] = ()):
        self.equation = equation
        self.kernel = nnx.Param(jnp.zeros(shape))
        self.has_bias = bool(bias)
        if bias:
            self.bias = nnx.Param(jnp.zeros(bias))

    def __call__(self, x: Float[Array, "B L *inputs"]) -> Float[Array, "B L *outputs"]:
        """The map of `x`."""
        y = jnp.asarray(project(self.equation, x, self.kernel[...]))
        return y + self.bias[...].astype(y.dtype)[None, None] if self.has_bias else y


class RMSNorm(nnx.Module):
    """x / sqrt(mean(x^2) + epsilon) * scale over the last axis, in float32."""

    def __init__(self, width: int, epsilon: float):
        self.scale = nnx.Param(jnp.ones((width,)))
        self.epsilon = epsilon

    def __call__(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
        """The normalised `x`, in its own type."""
        wide = x.astype(jnp.float32)
        mean_square = jnp.mean(wide * wide, axis=-1, keepdims=True)
        scale = self.scale[...].astype(jnp.float32).reshape((1,) * (x.ndim - 1) + (-1,))
        return (wide * jax.lax.rsqrt(mean_square + self.epsilon) * scale).astype(x.dtype)


class GatedMLP(nnx.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, config: DecoderConfig):
        width, hidden = config.hidden_size, config.intermediate_size
        self.gate = Projection("BLD,DF->BLF", (width, hidden))
        self.up = Projection("BLD,DF->BLF", (width, hidden))
        self.down = Projection("BLF,FD->BLD", (hidden, width))

    def __call__(self, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        """The MLP of every token."""
        return self.down(jax.nn.silu(self.gate(x)) * self.up(x))


def rotate(
    x: Float[Array, "B L heads H"], angles: Float[Array, "B L half"], scale: float = 1.0
) -> Float[Array, "B L heads H"]:
    """Rotates the pairs (x[h], x[h + H/2]) by their angles (RoPE), in float32.

    Args:
      x: queries or keys.
      angles: position times frequency, in radians.
      scale: multiplies the result (the attention factor of YaRN).
    """
    cosine = scale * jnp.cos(angles)[:, :, None, :]
    sine = scale * jnp.sin(angles)[:, :, None, :]
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = (first * cosine - second * sine, second * cosine + first * sine)
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def rotary_angles(config: DecoderConfig, positions: Int[Array, "B L"]) -> Float[Array, "B L half"]:
    """Angle of every pair of dimensions at every position, in radians."""
    frequencies = jnp.asarray(rotary_frequencies(config), jnp.float32)[None, None, :]
    return positions.astype(jnp.float32)[:, :, None] * frequencies


def rotary_frequencies(config: DecoderConfig) -> Float[np.ndarray, " half"]:
    """Radians per position of each pair of dimensions: theta^(-2h/H), stretched as configured."""
    pairs = np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim
    frequencies = config.rope_theta**-pairs
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies
    if scaling.rope_type == "linear":
        return frequencies / scaling.factor
    if scaling.rope_type == "llama3":
        return _llama3_frequencies(frequencies, scaling)
    return _yarn_frequencies(frequencies, scaling, config)


def _llama3_frequencies(
    frequencies: Float[np.ndarray, " half"], scaling: RopeScaling
) -> Float[np.ndarray, " half"]:
    """Keeps short wavelengths, divides long ones by the factor, and blends linearly in between."""
    rotations = scaling.original_max_positions * frequencies / (2 * np.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = np.clip((rotations - low) / (high - low), 0.0, 1.0)
    return frequencies * (kept + (1 - kept) / scaling.factor)


def _yarn_frequencies(
    frequencies: Float[np.ndarray, " half"], scaling: RopeScaling, config: DecoderConfig
) -> Float[np.ndarray, " half"]:
    """NTK-by-parts (arXiv:2309.00071, 3.2): a ramp over dimensions between two rotation counts."""

    def dimension(rotations: float) -> float:
        wavelength = scaling.original_max_positions / (rotations * 2 * np.pi)
        return config.head_dim * float(np.log(wavelength)) / (2 * float(np.log(config.rope_theta)))

    low, high = dimension(scaling.beta_fast), dimension(scaling.beta_slow)
    if scaling.truncate:
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0.0), min(high, config.head_dim - 1.0)
    high = high + 0.001 if low == high else high  # a ramp of no width would divide by zero
    stretched = np.clip((np.arange(config.head_dim // 2) - low) / (high - low), 0.0, 1.0)
    return frequencies * (1 - stretched + stretched / scaling.factor)
