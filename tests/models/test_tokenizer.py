import json
import random

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from jopd.models.checkpoint_files import CheckpointError
from jopd.models.tokenizer import Tokenizer, build_word_tokenizer, check_compatible

WORDS = [
    *["search", "click", "red", "cotton", "shirt", "buy", "now", "Buy", "Now", "prev", "next", "a"],
    *["machine-wash", "men's", "x-large", "10-pack", "32gb", "b0a1c2d3e4", "café", "i'm", "price"],
]


def save_words(directory, words=WORDS):
    build_word_tokenizer(words).save_pretrained(str(directory))
    return directory


def load_words(directory, words=WORDS, **options):
    return Tokenizer.load(save_words(directory, words), **options)


def base_tokenizer(directory, tokens, added=(), ids=None):
    """A tokenizer whose base vocabulary is exactly `tokens`, with `added` tokens after it."""
    vocabulary = ids or {token: i for i, token in enumerate(tokens)}
    backend = Backend(models.WordLevel(vocabulary, unk_token=tokens[0]))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=tokens[1])
    fast.add_tokens(list(added))
    fast.chat_template = "{{ messages[0]['content'] }}"
    fast.save_pretrained(str(directory))
    return Tokenizer.load(directory)


# --- chats and texts


def test_a_chat_is_rendered_in_chatml_and_waits_for_the_assistant(tmp_path):
    tokenizer = load_words(tmp_path)
    ids = tokenizer.render_chat(
        [{"role": "system", "content": "red shirt"}, {"role": "user", "content": "buy now"}]
    )
    start, end = "<|im_start|>", "<|im_end|>"
    expected = [start, "system", "red", "shirt", end, start, "user", "buy", "now", end, start]
    assert ids.dtype == np.int32
    assert ids.tolist() == [tokenizer.token_ids[token] for token in [*expected, "assistant"]]


def test_template_options_reach_the_template(tmp_path):
    save_words(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ 'red' if enable_thinking else 'cotton' }}")
    chat = [{"role": "user", "content": "a"}]
    on = Tokenizer.load(tmp_path, {"enable_thinking": True}).render_chat(chat)
    off = Tokenizer.load(tmp_path, {"enable_thinking": False}).render_chat(chat)
    ids = Tokenizer.load(tmp_path).token_ids
    assert (on.tolist(), off.tolist()) == ([ids["red"]], [ids["cotton"]])


def test_special_tokens_are_decoded_only_when_asked_for(tmp_path):
    tokenizer = load_words(tmp_path)
    ids = tokenizer.encode("click[buy now]<|im_end|>")
    assert ids[-1] == tokenizer.stop_ids[0]
    assert tokenizer.decode(ids) == "click[buy now]"
    assert tokenizer.decode(ids, skip_special=False) == "click[buy now] <|im_end|>"


# --- stop ids


def test_stop_ids_join_the_tokenizers_own_and_the_generation_configs(tmp_path):
    tokenizer = load_words(tmp_path)
    end, start = tokenizer.token_ids["<|im_end|>"], tokenizer.token_ids["<|im_start|>"]
    assert tokenizer.stop_ids == (end,)
    config = tmp_path / "generation_config.json"
    config.write_text(json.dumps({"eos_token_id": [start, end]}))
    assert Tokenizer.load(tmp_path).stop_ids == (end, start)  # the tokenizer's own first
    config.write_text(json.dumps({"eos_token_id": start}))
    assert Tokenizer.load(tmp_path).stop_ids == (end, start)
    config.write_text(json.dumps({"temperature": 0.7}))
    assert Tokenizer.load(tmp_path).stop_ids == (end,)


def test_padding_is_no_stop_id(tmp_path):
    tokenizer = load_words(tmp_path)
    assert tokenizer.backend.pad_token_id == tokenizer.token_ids["<pad>"]
    assert tokenizer.backend.pad_token_id not in tokenizer.stop_ids


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("tokenizer.json", "has no tokenizer.json"),
        ("chat_template.jinja", "has no chat template"),
        ("eos_token", "names no end token"),
    ],
)
def test_a_tokenizer_that_cannot_serve_is_refused(tmp_path, missing, message):
    save_words(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    if missing in config:
        config.pop(missing)
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    else:
        (tmp_path / missing).unlink()
    with pytest.raises(CheckpointError, match=message):
        Tokenizer.load(tmp_path)


# --- student and teacher


def test_equal_tokenizers_know_each_other_whole(tmp_path):
    vocabulary = check_compatible(load_words(tmp_path / "a"), load_words(tmp_path / "b"))
    assert len(vocabulary.known_ids) == len(load_words(tmp_path / "a").token_ids)
    assert vocabulary.known_ids.all()


def test_tokens_that_only_the_student_has_are_masked(tmp_path):
    student = base_tokenizer(tmp_path / "s", ["<unk>", "<end>", "a", "b"], ["<think>", "<tool>"])
    teacher = base_tokenizer(tmp_path / "t", ["<unk>", "<end>", "a", "b"])
    vocabulary = check_compatible(student, teacher)
    assert vocabulary.known_ids.tolist() == [True, True, True, True, False, False]
    ids = np.array([2, 4, 3, 5, 151_935], np.int32)  # the last is a padding row of the model
    assert vocabulary.known(ids).tolist() == [True, False, True, False, False]


def test_added_tokens_that_share_an_id_by_accident_are_masked(tmp_path):
    student = base_tokenizer(tmp_path / "s", ["<unk>", "<end>", "a"], ["<think>", "<tool>"])
    teacher = base_tokenizer(tmp_path / "t", ["<unk>", "<end>", "a"], ["<image>"])
    known = check_compatible(student, teacher).known_ids
    assert known.tolist() == [True, True, True, False, False]


def test_tokens_that_only_the_teacher_has_do_not_matter(tmp_path):
    student = base_tokenizer(tmp_path / "s", ["<unk>", "<end>", "a"])
    teacher = base_tokenizer(tmp_path / "t", ["<unk>", "<end>", "a", "b"], ["<think>"])
    assert check_compatible(student, teacher).known_ids.tolist() == [True, True, True]


def test_tokens_with_two_ids_are_refused_and_the_first_are_listed(tmp_path):
    student = base_tokenizer(tmp_path / "s", ["<unk>", "<end>", *"abcdefg"])
    teacher = base_tokenizer(tmp_path / "t", ["<unk>", "<end>", *"gabcdef"])
    with pytest.raises(ValueError, match="7 differences") as error:
        check_compatible(student, teacher)
    assert "'a' is id 2 and 3; 'b' is id 3 and 4" in str(error.value)
    assert "'g'" not in str(error.value)  # only the first five


def test_special_tokens_with_two_ids_are_refused(tmp_path):
    student = base_tokenizer(tmp_path / "s", ["<unk>", "<end>", "a"], ["<x>", "<think>"])
    teacher = base_tokenizer(tmp_path / "t", ["<unk>", "<end>", "a"], ["<think>"])
    with pytest.raises(ValueError, match="'<think>' is id 4 and 3"):
        check_compatible(student, teacher)


def test_base_ids_with_two_meanings_are_refused(tmp_path):
    student = base_tokenizer(tmp_path / "s", ["<unk>", "<end>", "a", "b"])
    teacher = base_tokenizer(tmp_path / "t", ["<unk>", "<end>", "x", "b"])
    with pytest.raises(ValueError, match="1 differences, first id 2 is 'a' and 'x'"):
        check_compatible(student, teacher)


# --- the word tokenizer


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("search[red cotton shirt]", "search [ red cotton shirt ]"),
        ("click[< prev]", "click [ < prev ]"),
        ("click[next >]", "click [ next > ]"),
        ("click[buy now]", "click [ buy now ]"),
        ("click[b0a1c2d3e4]", "click [ b0a1c2d3e4 ]"),
        ("click[10.5 x-large]", "click [ 1 0 . 5 x-large ]"),
        ("search[men's machine-wash 10-pack 32gb]", "search [ men's machine-wash 10-pack 32gb ]"),
        ("price: $23.50, café", "price : $ 2 3 . 5 0 , café"),
        ("Buy Now", "Buy Now"),
        ("10-12", "1 0 - 1 2"),
        ("5 - 5", "5 ▁ - ▁ 5"),
        ("red [a] . now", "red ▁ [ a ] ▁ . now"),
        ("red/cotton", "red ⁀ / ⁀ cotton"),
        ("-red a- 'a'", "- ⁀ red a ⁀ - ' ⁀ a ⁀ '"),
    ],
)
def test_texts_split_as_documented_and_decode_to_themselves(tmp_path, text, pieces):
    tokenizer = load_words(tmp_path)
    ids = tokenizer.encode(text)
    assert tokenizer.backend.convert_ids_to_tokens(ids.tolist()) == pieces.split()
    assert tokenizer.decode(ids) == text


def test_every_text_of_known_pieces_decodes_to_itself(tmp_path):
    tokenizer = load_words(tmp_path)
    unknown = tokenizer.token_ids["<unk>"]
    pieces = [*WORDS, *"[](),.:;!?%$#'-’<>/&+=*\"_", *"0123456789", "3", "7"]
    generator = random.Random(0)
    compared = 0
    for _ in range(3000):
        parts = [
            generator.choice(pieces) + generator.choice(["", " "])
            for _ in range(generator.randint(1, 8))
        ]
        text = "".join(parts).strip()
        ids = tokenizer.encode(text)
        if unknown not in ids:  # pieces that touch may form unknown words
            assert tokenizer.decode(ids) == text
            compared += 1
    assert compared > 1000


def test_unknown_words_become_one_unknown_token(tmp_path):
    tokenizer = load_words(tmp_path)
    ids = tokenizer.encode("red zebra-stripes shirt")
    names = tokenizer.token_ids
    assert ids.tolist() == [names["red"], names["<unk>"], names["shirt"]]


def test_ids_depend_on_the_set_of_words_only():
    first = build_word_tokenizer(["red shirt [a]", "b1, c"])
    second = build_word_tokenizer(["c", "b1", "shirt", "a", "red", "red"])
    assert first.get_vocab() == second.get_vocab()
    assert sorted(first.get_vocab().values()) == list(range(len(first)))


@pytest.mark.parametrize("model_type", [None, "qwen3", "llama"])
def test_transformers_loads_the_same_word_tokenizer(tmp_path, model_type):
    ours = load_words(tmp_path)
    if model_type:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    theirs = AutoTokenizer.from_pretrained(str(tmp_path))
    text = "click[10.5 x-large] men's"
    assert theirs.encode(text) == ours.encode(text).tolist()
    assert theirs.decode(theirs.encode(text)) == text
    assert theirs.get_vocab() == ours.token_ids
    specials = (theirs.eos_token, theirs.pad_token, theirs.unk_token)
    assert specials == ("<|im_end|>", "<pad>", "<unk>")
    chat = [{"role": "user", "content": "red shirt"}]
    rendered = theirs.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    np.testing.assert_array_equal(rendered, ours.render_chat(chat))


def test_the_files_decide_whatever_the_model_type(tmp_path):
    text = "click[10.5 x-large] men's"
    expected = load_words(tmp_path).encode(text)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    np.testing.assert_array_equal(Tokenizer.load(tmp_path).encode(text), expected)
