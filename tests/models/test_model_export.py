import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from jopd.models.architectures import DecoderConfig
from jopd.models.checkpoint_files import CheckpointError
from jopd.models.checkpoints import load_config, load_params, save_pretrained
from jopd.models.decoder import abstract_params, hidden_states, output_head
from jopd.models.export import ModelCard, export_model, render_card
from jopd.models.tokenizer import Tokenizer
from jopd.models.word_tokenizer import build_word_tokenizer

transformers = pytest.importorskip("transformers")

CARD = ModelCard(
    name="toy-student",
    base_model="toy-base",
    teachers=("toy-teacher",),
    method="DivOPD",
    update=134,
    success_rates={"webshop": 82.66, "alfworld": 70.0},
    command="python -m jopd.train --config=configs/toy.py --workdir=runs/toy",
)


@pytest.fixture
def tokenizer_dir(tmp_path):
    directory = tmp_path / "tokenizer"
    build_word_tokenizer(["click search red cotton shirt buy now"]).save_pretrained(str(directory))
    return directory


def tiny(vocab_size, model_type="qwen3", tied=True):
    return DecoderConfig(
        vocab_size=vocab_size,
        hidden_size=16,
        intermediate_size=24,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=4,
        rope_theta=1e4,
        rms_norm_eps=1e-6,
        tie_embeddings=tied,
        qkv_bias=model_type == "qwen2",
        qk_norm=model_type == "qwen3",
        max_positions=64,
        model_type=model_type,
    )


def random_params(config):
    generator = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: jnp.asarray(generator.normal(size=leaf.shape) * 0.2, leaf.dtype),
        abstract_params(config),
    )


def vocabulary_size(tokenizer_dir):
    return len(Tokenizer.load(tokenizer_dir).token_ids)


@pytest.mark.torch
@pytest.mark.parametrize("tied", [True, False])
def test_an_export_is_the_same_model_in_transformers(tmp_path, tokenizer_dir, tied):
    torch = pytest.importorskip("torch")
    config = tiny(vocabulary_size(tokenizer_dir), tied=tied)
    params = random_params(config)
    export_model(params, config, tokenizer_dir, tmp_path / "out", CARD)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = Tokenizer.load(tmp_path / "out").encode("search[red cotton shirt]")
    assert theirs.encode("search[red cotton shirt]") == ids.tolist()
    assert model.generation_config.eos_token_id == [theirs.eos_token_id]

    tokens = jnp.asarray(ids)[None]
    positions = jnp.arange(len(ids), dtype=jnp.int32)[None]
    hidden = hidden_states(
        params, config, tokens, positions, jnp.ones_like(tokens), compute_dtype=jnp.float32
    )
    ours = jnp.einsum("BLD,VD->BLV", hidden, output_head(params, config))
    with torch.no_grad():
        reference = model(torch.from_numpy(ids[None]).long()).logits.numpy()
    np.testing.assert_allclose(ours, reference, atol=2e-4)  # float32 sums in another order


def test_the_base_models_settings_are_kept_and_padding_is_cut_off(tmp_path, tokenizer_dir):
    size = vocabulary_size(tokenizer_dir)
    config, padded_config = tiny(size), tiny(size + 5)
    base, out = tmp_path / "base", tmp_path / "out"
    save_pretrained(
        base,
        random_params(config),
        config,
        tokenizer_dir=tokenizer_dir,
        generation_config={"temperature": 0.7, "top_k": 20, "eos_token_id": [3, 2]},
        max_shard_bytes=2**30,
    )
    here = SingleDeviceSharding(jax.devices()[0])
    padded = load_params(base, config, here, jnp.float32, pad_vocab_to=size + 5)
    export_model(padded, padded_config, base, out, CARD, base_dir=base, dtype=jnp.bfloat16)
    assert load_config(out) == config
    assert json.loads((out / "config.json").read_text())["dtype"] == "bfloat16"
    generation = json.loads((out / "generation_config.json").read_text())
    assert generation == {"temperature": 0.7, "top_k": 20, "eos_token_id": [3, 2]}
    found = load_params(out, config, here, jnp.bfloat16)
    jax.tree.map(
        lambda a, b: np.testing.assert_array_equal(a, np.asarray(b).astype(jnp.bfloat16)),
        found,
        random_params(config),
    )


def test_the_card_says_what_was_trained_and_how(tmp_path, tokenizer_dir):
    config = tiny(vocabulary_size(tokenizer_dir))
    export_model(random_params(config), config, tokenizer_dir, tmp_path / "out", CARD)
    text = (tmp_path / "out" / "README.md").read_text()
    assert text == render_card(CARD)
    assert text.startswith("---\nbase_model: toy-base\n")
    assert "`toy-base` after 134 updates of DivOPD, taught by `toy-teacher`." in text
    assert "| alfworld | 70.0 |\n| webshop | 82.7 |" in text
    assert CARD.command in text


def test_a_tokenizer_that_transformers_would_replace_is_refused(tmp_path, tokenizer_dir):
    config = tiny(vocabulary_size(tokenizer_dir), "qwen2")
    with pytest.raises(CheckpointError, match="transformers loads another tokenizer"):
        export_model(random_params(config), config, tokenizer_dir, tmp_path / "out", CARD)
    assert not (tmp_path / "out").exists()


def test_a_byte_level_tokenizer_is_accepted_with_qwen2(tmp_path):
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(["click search red cotton shirt"] * 4, trainer)
    trained = json.loads(backend.to_str())["model"]
    merges = [tuple(merge) for merge in trained["merges"]]
    tokenizer = transformers.Qwen2Tokenizer(vocab=trained["vocab"], merges=merges)
    tokenizer.chat_template = "{{ messages[0]['content'] }}"
    tokenizer.save_pretrained(str(tmp_path / "tokenizer"))
    config = tiny(vocabulary_size(tmp_path / "tokenizer"), "qwen2")
    export_model(random_params(config), config, tmp_path / "tokenizer", tmp_path / "out", CARD)
    assert load_config(tmp_path / "out") == config
