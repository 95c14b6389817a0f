"""Names and layouts of our parameters in Hugging Face checkpoints: one table, both directions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import numpy as np

from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import abstract_params

Window = tuple[slice, ...]  # one slice with start and stop per axis

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"

# Parameter path -> (stored name, stored axes, our axes without the layer axis). Letters are those
# of the package: V D F N K H. Two letters in one word are one stored axis that merges both, the
# first outermost. Names of stacked parameters follow "model.layers.{layer}.".
_LAYOUTS = {
    "embed/embedding": (EMBEDDING, "V D", "V D"),
    "layers/input_norm/scale": ("input_layernorm.weight", "D", "D"),
    "layers/attention/query/kernel": ("self_attn.q_proj.weight", "NH D", "D N H"),
    "layers/attention/query/bias": ("self_attn.q_proj.bias", "NH", "N H"),
    "layers/attention/key/kernel": ("self_attn.k_proj.weight", "KH D", "D K H"),
    "layers/attention/key/bias": ("self_attn.k_proj.bias", "KH", "K H"),
    "layers/attention/value/kernel": ("self_attn.v_proj.weight", "KH D", "D K H"),
    "layers/attention/value/bias": ("self_attn.v_proj.bias", "KH", "K H"),
    "layers/attention/output/kernel": ("self_attn.o_proj.weight", "D NH", "N H D"),
    "layers/attention/query_norm/scale": ("self_attn.q_norm.weight", "H", "H"),
    "layers/attention/key_norm/scale": ("self_attn.k_norm.weight", "H", "H"),
    "layers/post_norm/scale": ("post_attention_layernorm.weight", "D", "D"),
    "layers/mlp/gate/kernel": ("mlp.gate_proj.weight", "F D", "D F"),
    "layers/mlp/up/kernel": ("mlp.up_proj.weight", "F D", "D F"),
    "layers/mlp/down/kernel": ("mlp.down_proj.weight", "D F", "F D"),
    "final_norm/scale": ("model.norm.weight", "D", "D"),
    "head/kernel": (HEAD, "V D", "V D"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorLayout:
    """How one parameter is stored: as a tensor, or as one tensor per layer.

    Attributes:
      name: of the stored tensor; "{layer}" stands for the layer's number.
      stored: axes of the stored tensor, a word each.
      ours: axes of the parameter without its layer axis.
      sizes: size of each axis letter in the files.
    """

    name: str
    stored: tuple[str, ...]
    ours: tuple[str, ...]
    sizes: Mapping[str, int]

    @property
    def stacked(self) -> bool:
        """The parameter has a leading layer axis."""
        return "{layer}" in self.name

    def stored_shape(self) -> tuple[int, ...]:
        """Shape of each stored tensor."""
        return tuple(math.prod(self.sizes[axis] for axis in word) for word in self.stored)

    def stored_window(self, window: Window) -> Window:
        """The part of a stored tensor that holds this window of the parameter.

        The inner axis of a merged pair is taken whole, and rows that the files lack are left out.
        """
        spans = dict(zip(self.ours, window, strict=True))
        bounds = []
        for word in self.stored:
            span, size, step = spans[word[0]], self.sizes[word[0]], self._inner_size(word)
            bounds.append(slice(min(span.start, size) * step, min(span.stop, size) * step))
        return tuple(bounds)

    def to_ours(self, block: np.ndarray, window: Window) -> np.ndarray:
        """The window of the parameter, from the part that `stored_window` names."""
        spans = dict(zip(self.ours, window, strict=True))
        axes = "".join(self.stored)
        lengths, cut = [], []
        for word, length in zip(self.stored, block.shape, strict=True):
            lengths.append(length // self._inner_size(word))
            cut.append(slice(None))
            if len(word) == 2:
                lengths.append(self._inner_size(word))
                cut.append(spans[word[1]])
        order = [axes.index(axis) for axis in self.ours]
        return block.reshape(lengths)[tuple(cut)].transpose(order)

    def to_stored(self, array: np.ndarray) -> np.ndarray:
        """The stored tensor of a parameter, or of one layer of it; padding rows are cut off."""
        order = [self.ours.index(axis) for axis in "".join(self.stored)]
        whole = array[: self.sizes["V"]] if self.ours[0] == "V" else array
        return whole.transpose(order).reshape(self.stored_shape())

    def _inner_size(self, word: str) -> int:
        return self.sizes[word[1]] if len(word) == 2 else 1


def tensor_layouts(config: DecoderConfig, *, stored_rows: int) -> dict[str, TensorLayout]:
    """The layout of every parameter of the decoder, by parameter path.

    Args:
      config: the decoder.
      stored_rows: rows of the embedding and of the head in the files.
    """
    sizes = {
        "V": stored_rows,
        "D": config.hidden_size,
        "F": config.intermediate_size,
        "N": config.num_heads,
        "K": config.num_kv_heads,
        "H": config.head_dim,
    }
    layouts = {}
    for path, _ in jax.tree_util.tree_leaves_with_path(abstract_params(config)):
        key = jax.tree_util.keystr(path, simple=True, separator="/")
        name, stored, ours = _LAYOUTS[key]
        prefix = "model.layers.{layer}." if key.startswith("layers/") else ""
        layouts[key] = TensorLayout(
            name=prefix + name,
            stored=tuple(stored.split()),
            ours=tuple(ours.split()),
            sizes=sizes,
        )
    return layouts


def stored_shapes(
    layouts: Mapping[str, TensorLayout], num_layers: int
) -> dict[str, tuple[int, ...]]:
    """Name and shape of every stored tensor."""
    return {
        layout.name.format(layer=layer): layout.stored_shape()
        for layout in layouts.values()
        for layer in range(num_layers if layout.stacked else 1)
    }
