"""The search engine: BM25 with the numbers of Lucene 8, bit for bit.

Lucene keeps a document's length in one byte, computes term weights in float32, adds them in
float64 and rounds the sum to float32; ties are broken by document id. Rankings change when any of
this does.
"""

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Int64

from jopd.envs.webshop.text_analysis import index_terms

K1 = np.float32(0.9)
B = np.float32(0.4)
_LARGEST_INT = 2**31 - 1


def _float_code(value: int) -> int:
    """Codes a count in 4 significant bits: 3 bits of mantissa below a shift."""
    shift = value.bit_length() - 4
    if shift < 0:
        return value
    return (value >> shift) & 0x07 | (shift + 1) << 3


def _float_value(code: int) -> int:
    """The smallest count that `_float_code` codes as `code`."""
    mantissa, shift = code & 0x07, (code >> 3) - 1
    return mantissa if shift < 0 else (mantissa | 0x08) << shift


_EXACT_CODES = 255 - _float_code(_LARGEST_INT)  # lengths below this are their own code


def length_byte(length: int) -> int:
    """Lucene's code, 0 to 255, of a document of `length` terms."""
    if length < _EXACT_CODES:
        return length
    return _EXACT_CODES + _float_code(length - _EXACT_CODES)


def byte_length(code: int) -> int:
    """The length that Lucene scores a document of length code `code` with."""
    if code < _EXACT_CODES:
        return code
    return _EXACT_CODES + _float_value(code - _EXACT_CODES)


class SearchEngine:
    """An index over a fixed set of documents.

    Postings are held as a sparse matrix with a row for each term: `_rows` says where a term's part
    of `_documents`, the documents with it, and of `_saturations` lies: f / (f + K), where f counts
    the term in the document.
    """

    def __init__(self, documents: Sequence[tuple[str, str]]):
        """Indexes `documents`, pairs of a unique id and a text."""
        counts = [Counter(index_terms(text)) for _, text in documents]
        lengths = np.array([count.total() for count in counts], np.int64)
        self._num_documents = int((lengths > 0).sum())
        self._tie_rank = _ranks([document_id for document_id, _ in documents])
        postings: dict[str, list[tuple[int, int]]] = {}
        for document, count in enumerate(counts):
            for term, frequency in count.items():
                postings.setdefault(term, []).append((document, frequency))
        ends = itertools.accumulate(len(posting) for posting in postings.values())
        self._rows = {
            term: slice(end - len(postings[term]), end)
            for term, end in zip(postings, ends, strict=True)
        }
        flat = np.array([pair for posting in postings.values() for pair in posting], np.int64)
        self._documents, frequency = flat.reshape(-1, 2).T
        norms = _length_norms(lengths)[self._documents]
        self._saturations = (frequency / (frequency + norms.astype(np.float64))).astype(np.float32)

    def search(self, query: str, *, limit: int) -> Int64[np.ndarray, " hits"]:
        """The best `limit` documents by position, best first."""
        scores = self.scores(query)
        hits = np.flatnonzero(scores)
        best_first = np.lexsort((self._tie_rank[hits], -scores[hits]))
        return hits[best_first[:limit]]

    def scores(self, query: str) -> Float32[np.ndarray, " documents"]:
        """BM25 of every document; 0 where no term of the query occurs."""
        total = np.zeros(len(self._tie_rank), np.float64)
        for term, times in Counter(index_terms(query)).items():
            if term in self._rows:
                row = self._rows[term]
                weight = np.float32(times) * self._inverse_frequency(row.stop - row.start)
                total[self._documents[row]] += weight * self._saturations[row]
        return total.astype(np.float32)

    def _inverse_frequency(self, documents_with_term: int) -> np.float32:
        absent = self._num_documents - documents_with_term
        return np.float32(np.log(1 + (absent + 0.5) / (documents_with_term + 0.5)))


def _ranks(document_ids: Sequence[str]) -> Int64[np.ndarray, " documents"]:
    """Where each document comes in the order of ids."""
    in_order = sorted(range(len(document_ids)), key=lambda document: document_ids[document])
    ranks = np.empty(len(document_ids), np.int64)
    ranks[np.array(in_order, np.int64)] = np.arange(len(document_ids))
    return ranks


def _length_norms(lengths: Int64[np.ndarray, " documents"]) -> Float32[np.ndarray, " documents"]:
    """K of each document: k1 (1 - b + b length / mean length), with the length out of its byte."""
    filled = max(int((lengths > 0).sum()), 1)
    mean_length = np.float32(max(lengths.sum(), 1) / filled)
    table = np.array([byte_length(code) for code in range(256)], np.float32)
    codes = np.array([length_byte(int(length)) for length in lengths], np.int64)
    return K1 * ((np.float32(1) - B) + B * table[codes] / mean_length)
