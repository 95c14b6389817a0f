"""What a decoder is made of: sizes and variants, read from and written to Hugging Face configs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ModelType = Literal["qwen2", "qwen3", "llama"]
RopeType = Literal["linear", "llama3", "yarn"]

_CLASS_NAMES = {
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "llama": "LlamaForCausalLM",
}
_DEFAULT_ROPE_THETA = 10000.0  # what transformers assumes when the file names none

# Keys of a Hugging Face config that would change the computation, and the one value computed here.
_ONLY_SUPPORTED: dict[str, Any] = {
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "mlp_bias": False,
    "use_sliding_window": False,
    "partial_rotary_factor": 1.0,
    "quantization_config": None,
    "num_experts": None,
    "num_local_experts": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """How rotary frequencies are stretched beyond the context of pre-training.

    Attributes:
      rope_type: "linear" divides every frequency by `factor`; "llama3" only the slow ones;
        "yarn" ramps between the two by rotations within the original context.
      factor: by how much the context was stretched.
      original_max_positions: context of pre-training, in tokens; not read by "linear".
      low_freq_factor: llama3: wavelengths above original / this are divided by `factor`.
      high_freq_factor: llama3: wavelengths below original / this are kept.
      beta_fast: yarn: frequencies with more rotations than this are kept.
      beta_slow: yarn: frequencies with fewer rotations than this are divided by `factor`.
      truncate: yarn: the ends of the ramp are rounded outwards to whole dimensions.
      attention_factor: yarn: multiplies the rotated queries and keys.
    """

    rope_type: RopeType
    factor: float
    original_max_positions: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """Sizes and variants of one decoder.

    Attributes:
      vocab_size: V, rows of the embedding, padding rows included.
      hidden_size: D, width of the residual stream.
      intermediate_size: F, width inside the MLP.
      num_layers: decoder blocks.
      num_heads: N, query heads.
      num_kv_heads: K, key and value heads; divides `num_heads`.
      head_dim: H, width of a head; even.
      rope_theta: base of the rotary frequencies.
      rope_scaling: stretch of those frequencies, or None.
      rms_norm_eps: added to the mean square in every norm.
      tie_embeddings: the output head is the embedding.
      qkv_bias: query, key and value projections have a bias.
      qk_norm: queries and keys pass an RMSNorm over the head before rotation.
      max_positions: context limit in tokens; no cache is longer.
      model_type: the family whose config and weight names are written on export.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    rms_norm_eps: float
    tie_embeddings: bool
    qkv_bias: bool
    qk_norm: bool
    max_positions: int
    model_type: ModelType
    rope_scaling: RopeScaling | None = None

    def __post_init__(self):
        """Refuses sizes that do not fit each other."""
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads must be a multiple of num_kv_heads, "
                f"got {self.num_heads} and {self.num_kv_heads}"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even for rotary positions, got {self.head_dim}")

    @classmethod
    def from_hugging_face(cls, data: Mapping[str, Any]) -> "DecoderConfig":
        """Reads the content of a `config.json`.

        Raises:
          ValueError: a key is missing, or asks for something this decoder does not compute.
        """
        _refuse_unsupported(data)
        model_type, heads = data["model_type"], _required(data, "num_attention_heads")
        hidden = _required(data, "hidden_size")
        max_positions = _required(data, "max_position_embeddings")
        theta, scaling = _read_rope(data, max_positions)
        return cls(
            vocab_size=_required(data, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=_required(data, "intermediate_size"),
            num_layers=_required(data, "num_hidden_layers"),
            num_heads=heads,
            num_kv_heads=data.get("num_key_value_heads") or heads,
            head_dim=data.get("head_dim") or hidden // heads,
            rope_theta=theta,
            rope_scaling=scaling,
            rms_norm_eps=float(_required(data, "rms_norm_eps")),
            tie_embeddings=bool(data.get("tie_word_embeddings", False)),
            qkv_bias=model_type == "qwen2",
            qk_norm=model_type == "qwen3",
            max_positions=max_positions,
            model_type=model_type,
        )

    def to_hugging_face(self) -> dict[str, Any]:
        """The content of a `config.json` that transformers, old and new, reads as this decoder.

        Raises:
          ValueError: the family of `model_type` cannot express this decoder.
        """
        family = (self.model_type == "qwen2", self.model_type == "qwen3")
        if (self.qkv_bias, self.qk_norm) != family:
            raise ValueError(
                f"model_type {self.model_type!r} means qkv_bias, qk_norm = {family}, "
                f"got {(self.qkv_bias, self.qk_norm)}"
            )
        scaling = None if self.rope_scaling is None else _write_rope(self.rope_scaling)
        return {
            "architectures": [_CLASS_NAMES[self.model_type]],
            "model_type": self.model_type,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": self.max_positions,
            "rms_norm_eps": self.rms_norm_eps,
            "tie_word_embeddings": self.tie_embeddings,
            "rope_theta": self.rope_theta,
            "rope_scaling": scaling,
            "rope_parameters": {"rope_theta": self.rope_theta}
            | (scaling or {"rope_type": "default"}),
        }


def _required(data: Mapping[str, Any], key: str) -> Any:
    if data.get(key) is None:
        raise ValueError(f"the model config has no {key!r}")
    return data[key]


def _refuse_unsupported(data: Mapping[str, Any]) -> None:
    if data.get("model_type") not in _CLASS_NAMES:
        raise ValueError(
            f"model_type must be one of {sorted(_CLASS_NAMES)}, got {data.get('model_type')!r}"
        )
    for key, supported in _ONLY_SUPPORTED.items():
        if data.get(key, supported) != supported:
            raise ValueError(f"{key} = {data[key]!r} is not supported, only {supported!r} is")
    layer_types = set(data.get("layer_types") or ())
    if not layer_types <= {"full_attention"}:
        raise ValueError(
            f"layer_types {sorted(layer_types)} are not supported, only 'full_attention' is"
        )


def _read_rope(data: Mapping[str, Any], max_positions: int) -> tuple[float, RopeScaling | None]:
    """Base and scaling from `rope_parameters` (newer files) or `rope_theta` and `rope_scaling`."""
    rope = data.get("rope_parameters") or data.get("rope_scaling") or {}
    theta = rope.get("rope_theta") or data.get("rope_theta") or _DEFAULT_ROPE_THETA
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if rope.get("partial_rotary_factor", 1.0) != 1.0 or "mrope_section" in rope:
        raise ValueError(
            f"rope settings {dict(rope)} are not supported, only whole one-dimensional heads are"
        )
    if kind == "default":
        return float(theta), None
    if kind not in ("linear", "llama3", "yarn"):
        raise ValueError(
            f"rope_type {kind!r} is not supported, only default, linear, llama3 and yarn are"
        )
    optional = ("low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow")
    return float(theta), RopeScaling(
        rope_type=kind,
        factor=float(rope["factor"]),
        original_max_positions=rope.get("original_max_position_embeddings") or max_positions,
        truncate=rope.get("truncate", True),
        attention_factor=_attention_factor(rope) if kind == "yarn" else 1.0,
        **{name: float(rope[name]) for name in optional if rope.get(name) is not None},
    )


def _attention_factor(rope: Mapping[str, Any]) -> float:
    """YaRN's temperature (arXiv:2309.00071, 3.4): 0.1 log(factor) + 1 unless it is given."""
    if rope.get("attention_factor") is not None:
        return float(rope["attention_factor"])
    stretch = math.log(max(rope["factor"], 1.0))
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        return (0.1 * rope["mscale"] * stretch + 1.0) / (
            0.1 * rope["mscale_all_dim"] * stretch + 1.0
        )
    return 0.1 * stretch + 1.0


def _write_rope(scaling: RopeScaling) -> dict[str, Any]:
    common = {"rope_type": scaling.rope_type, "factor": scaling.factor}
    if scaling.rope_type == "linear":
        return common
    common["original_max_position_embeddings"] = scaling.original_max_positions
    if scaling.rope_type == "llama3":
        return common | {
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
        }
    return common | {
        "beta_fast": scaling.beta_fast,
        "beta_slow": scaling.beta_slow,
        "truncate": scaling.truncate,
        "attention_factor": scaling.attention_factor,
    }
