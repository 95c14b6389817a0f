"""The doctor's look at tokenizers, stop ids and vocabularies, on tokenizers made here."""

import dataclasses
from pathlib import Path

import pytest

from jopd.assembly import ModelFiles
from jopd.checks.vocabulary import check_rows, check_stop_ids, check_tokenizers
from jopd.models.checkpoints import load_config
from jopd.models.tokenizer import Tokenizer, build_word_tokenizer

MODEL = Path(__file__).parents[2] / "configs" / "quickstart_models" / "student"
CONFIG = load_config(MODEL)


def model(*words: str, rows: int = 151_936) -> ModelFiles:
    backend = build_word_tokenizer(words)
    end = backend.convert_tokens_to_ids("<|im_end|>")
    return ModelFiles(
        directory=MODEL,
        config=dataclasses.replace(CONFIG, vocab_size=rows),
        tokenizer=Tokenizer(backend=backend, stop_ids=(end,)),
    )


def test_padded_vocabularies_of_different_size_are_fine_and_said():
    found = list(check_tokenizers(model("a", "b"), model("a", "b", rows=152_064)))
    assert [finding.level for finding in found] == ["ok", "ok"]
    assert "151,936 rows (student) and 152,064 rows (teacher): fine" in found[1].text


def test_different_tokenizers_are_an_error():
    (found,) = check_tokenizers(model("a", "c"), model("b", "c"))
    assert found.level == "error"
    assert "different tokenizers" in found.text


def test_tokens_only_the_student_has_are_a_warning():
    student = model("a")
    student.tokenizer.backend.add_tokens(["<only-mine>"])
    found, _ = check_tokenizers(student, model("a"))
    assert (found.level, found.text[:2]) == ("warning", "1 ")


@pytest.mark.parametrize("name", ["<|im_start|>", "<pad>"])
def test_a_stop_id_that_ends_no_turn_of_the_template_is_an_error(name):
    tokenizer = model("a").tokenizer
    wrong = dataclasses.replace(
        tokenizer, stop_ids=(tokenizer.backend.convert_tokens_to_ids(name),)
    )
    (found,) = check_stop_ids(wrong, "student")
    assert found.level == "error"
    assert "'<|im_end|>'" in found.text and "no response would end" in found.text


def test_the_templates_own_end_is_a_good_stop_id():
    (found,) = check_stop_ids(model("a").tokenizer, "student")
    assert found.level == "ok"


def test_a_model_with_fewer_rows_than_ids_is_an_error():
    assert not list(check_rows(model("a"), "student"))
    (found,) = check_rows(model("a", rows=10), "student")
    assert found.level == "error" and "10 rows" in found.text
