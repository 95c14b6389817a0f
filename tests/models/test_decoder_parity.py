"""The decoder against transformers: same weights, same hidden states, logits and greedy tokens."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import extend, hidden_states, init_cache, output_head

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

FAMILIES = {
    "qwen2": (
        transformers.Qwen2Config,
        transformers.Qwen2ForCausalLM,
        {
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 16,
            }
        },
    ),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM, {"head_dim": 16}),
    "qwen3 tied": (
        transformers.Qwen3Config,
        transformers.Qwen3ForCausalLM,
        {"head_dim": 16, "tie_word_embeddings": True},
    ),
    "llama": (
        transformers.LlamaConfig,
        transformers.LlamaForCausalLM,
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            }
        },
    ),
}


def reference(family):
    """A tiny random transformers model whose biases and norms are not trivial, in float32."""
    config_class, model_class, extra = FAMILIES[family]
    config = config_class(
        vocab_size=97,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        **extra,
    )
    torch.manual_seed(0)
    model = model_class(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def converted(model):
    """Our config and parameters of a transformers model."""
    config = DecoderConfig.from_hugging_face(model.config.to_dict())
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    n, k, h = config.num_heads, config.num_kv_heads, config.head_dim

    def stack(name, reshape=lambda array: array):
        layers = range(config.num_layers)
        return jnp.stack([reshape(state[f"model.layers.{i}.{name}"]) for i in layers])

    def project(name, heads):
        found = {"kernel": stack(f"self_attn.{name}.weight", lambda w: w.T.reshape(-1, heads, h))}
        if config.qkv_bias:
            found["bias"] = stack(f"self_attn.{name}.bias", lambda b: b.reshape(heads, h))
        return found

    attention = {
        "query": project("q_proj", n),
        "key": project("k_proj", k),
        "value": project("v_proj", k),
        "output": {"kernel": stack("self_attn.o_proj.weight", lambda w: w.T.reshape(n, h, -1))},
    }
    if config.qk_norm:
        attention["query_norm"] = {"scale": stack("self_attn.q_norm.weight")}
        attention["key_norm"] = {"scale": stack("self_attn.k_norm.weight")}
    params = {
        "embed": {"embedding": jnp.asarray(state["model.embed_tokens.weight"])},
        "layers": {
            "input_norm": {"scale": stack("input_layernorm.weight")},
            "attention": attention,
            "post_norm": {"scale": stack("post_attention_layernorm.weight")},
            "mlp": {
                name: {"kernel": stack(f"mlp.{name}_proj.weight", lambda w: w.T)}
                for name in ("gate", "up", "down")
            },
        },
        "final_norm": {"scale": jnp.asarray(state["model.norm.weight"])},
    }
    if not config.tie_embeddings:
        params["head"] = {"kernel": jnp.asarray(state["lm_head.weight"])}
    return config, params


@pytest.fixture(params=FAMILIES, scope="module")
def pair(request):
    model = reference(request.param)
    return (model, *converted(model))


DOCUMENTS = [
    np.random.default_rng(i).integers(0, 97, size) for i, size in enumerate((23, 9, 1, 14))
]


def reference_logits(model, document):
    with torch.no_grad():
        return model(torch.tensor(document[None])).logits[0].numpy()


def logits(params, config, tokens, positions, segments):
    hidden = hidden_states(
        params,
        config,
        jnp.asarray(tokens),
        jnp.asarray(positions),
        jnp.asarray(segments),
        compute_dtype=jnp.float32,
    )
    return np.asarray(hidden @ output_head(params, config).T)


def test_packed_documents_have_the_logits_of_transformers(pair):
    model, config, params = pair
    tokens = np.concatenate([*DOCUMENTS, [0, 0]])[None]
    positions = np.concatenate([*map(np.arange, map(len, DOCUMENTS)), [0, 0]])[None]
    segments = np.repeat([1, 2, 3, 4, 0], [*map(len, DOCUMENTS), 2])[None]
    ours = logits(params, config, tokens, positions, segments)[0, :-2]
    theirs = np.concatenate([reference_logits(model, document) for document in DOCUMENTS])
    np.testing.assert_allclose(ours, theirs, atol=2e-4, rtol=0)


def test_padded_documents_have_the_logits_of_transformers(pair):
    model, config, params = pair
    length = max(map(len, DOCUMENTS))
    tokens = np.stack([np.pad(document, (0, length - len(document))) for document in DOCUMENTS])
    segments = np.stack([np.arange(length) < len(document) for document in DOCUMENTS]).astype(int)
    positions = np.tile(np.arange(length), (len(DOCUMENTS), 1))
    ours = logits(params, config, tokens, positions, segments)
    for row, document in zip(ours, DOCUMENTS, strict=True):
        theirs = reference_logits(model, document)
        np.testing.assert_allclose(row[: len(document)], theirs, atol=2e-4, rtol=0)


def test_every_layer_has_the_hidden_states_of_transformers(pair):
    """Compared after the final norm, with the model cut off behind each layer."""
    model, config, params = pair
    document = DOCUMENTS[0]
    with torch.no_grad():
        theirs = model.model(torch.tensor(document[None]), output_hidden_states=True).hidden_states
        theirs = [*map(model.model.norm, theirs[:-1]), theirs[-1]]
    tokens = jnp.asarray(document[None])
    positions, segments = jnp.arange(len(document))[None], jnp.ones_like(tokens)
    for depth in range(1, config.num_layers + 1):
        layers = jax.tree.map(lambda leaf, depth=depth: leaf[:depth], params["layers"])
        ours = hidden_states(
            params | {"layers": layers},
            dataclasses.replace(config, num_layers=depth),
            tokens,
            positions,
            segments,
            compute_dtype=jnp.float32,
        )
        np.testing.assert_allclose(ours, theirs[depth].numpy(), atol=1e-4)


def test_greedy_generation_gives_the_tokens_of_transformers(pair):
    model, config, params = pair
    prompt, count = DOCUMENTS[1], 12
    theirs = model.generate(
        torch.tensor(prompt[None]), max_new_tokens=count, do_sample=False, pad_token_id=0
    )[0, len(prompt) :].tolist()
    head = output_head(params, config)
    step = jax.jit(lambda *args: extend(params, config, *args, compute_dtype=jnp.float32))
    positions = jnp.arange(len(prompt))[None]
    hidden, cache = step(
        jnp.asarray(prompt)[None], positions, init_cache(config, 1, 32, jnp.float32)
    )
    ours = []
    for position in range(len(prompt), len(prompt) + count):
        ours.append(int(jnp.argmax(head @ hidden[0, -1])))
        token = jnp.asarray([[ours[-1]]])
        hidden, cache = step(token, jnp.asarray([[position]]), cache)
    assert ours == theirs
