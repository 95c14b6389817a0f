import json
import math
from pathlib import Path

import numpy as np
import pytest
from lucene_corpus import SENTENCES, documents, queries

from jopd.envs.webshop.search import SearchEngine, byte_length, length_byte
from jopd.envs.webshop.text_analysis import index_terms

GOLDEN = json.loads((Path(__file__).parent / "lucene_golden.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def corpus_engine():
    return SearchEngine(documents())


@pytest.mark.parametrize(("sentence", "terms"), list(zip(SENTENCES, GOLDEN["terms"], strict=True)))
def test_texts_become_the_terms_of_lucene(sentence, terms):
    assert index_terms(sentence) == terms


@pytest.mark.parametrize("number", range(len(queries())))
def test_the_ranking_is_that_of_lucene(corpus_engine, number):
    ids = [document_id for document_id, _ in documents()]
    hits = corpus_engine.search(queries()[number], limit=50)
    assert [ids[hit] for hit in hits] == GOLDEN["hits"][number]


def test_scores_are_those_of_lucene(corpus_engine):
    best = [corpus_engine.scores(query).max() for query in queries()]
    np.testing.assert_allclose(best, GOLDEN["best_scores"], rtol=0, atol=1e-4)  # printed digits


def test_scores_are_computed_by_hand():
    engine = SearchEngine([("a", "red shirt"), ("b", "red red hat"), ("c", "blue shoe box lid")])
    inverse_frequency = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))  # red is in 2 of 3
    short = 0.9 * (1 - 0.4 + 0.4 * 2 / 3)  # 2 terms where the mean is 3
    mean = 0.9
    expected = [inverse_frequency * 1 / (1 + short), inverse_frequency * 2 / (2 + mean), 0]
    np.testing.assert_allclose(engine.scores("reds"), expected, rtol=1e-6)
    np.testing.assert_allclose(engine.scores("red red"), 2 * np.array(expected), rtol=1e-6)
    assert list(engine.search("red", limit=50)) == [1, 0]


def test_long_documents_are_scored_by_their_coded_length():
    """41 terms have the code of 40: the two differ in nothing but their ids."""
    forty, more = "red " + "x " * 39, "red " + "x " * 40
    engine = SearchEngine([("b", forty), ("a", more)])
    assert engine.scores("red")[0] == engine.scores("red")[1]
    assert list(engine.search("red", limit=50)) == [1, 0]


def test_ties_are_broken_by_id_and_not_by_position():
    engine = SearchEngine([("z", "red hat"), ("a", "red cap"), ("m", "red tie")])
    assert list(engine.search("red", limit=50)) == [1, 2, 0]
    assert list(engine.search("red", limit=2)) == [1, 2]


@pytest.mark.parametrize("query", ["", "the", "absent", "?!"])
def test_a_query_without_known_terms_finds_nothing(query):
    assert len(SearchEngine([("a", "red hat"), ("b", "")]).search(query, limit=50)) == 0


def test_documents_without_terms_do_not_count():
    full, padded = [("a", "red hat"), ("b", "red")], [("a", "red hat"), ("b", "red"), ("c", "the")]
    np.testing.assert_array_equal(
        SearchEngine(full).scores("red hat"), SearchEngine(padded).scores("red hat")[:2]
    )


def test_the_length_table_is_computed_by_hand():
    """24 free codes, then 8 and 8 exact ones, then steps of 2, 4, ... for 8 codes each."""
    exact = list(range(40))
    by_two = [40, 42, 44, 46, 48, 50, 52, 54]
    by_four = [56, 60, 64, 68, 72, 76, 80, 84]
    assert [byte_length(code) for code in range(56)] == exact + by_two + by_four
    assert byte_length(255) == 24 + 15 * 2**27


def test_a_length_has_the_code_of_the_largest_coded_length_not_above_it():
    table = [byte_length(code) for code in range(256)]
    assert table == sorted(set(table))
    for length in [*range(3000), 10**6, 2**31 - 1]:
        expected = max(code for code in range(256) if table[code] <= length)
        assert length_byte(length) == expected
