"""The English analyser of the search engine: text in, stemmed index terms out.

The chain is Lucene's: standard tokenizer, possessive filter, lower case, stop words, Porter's
stemmer. Scripts whose letters carry combining vowels (Thai, Devanagari) are cut differently than by
Lucene.
"""

import functools
import re

import Stemmer

_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())

# Word breaks of Unicode (UAX 29). Ideographs, hiragana and emoji are words of their own;
# superscripts and fractions belong to no word; marks and invisible formats belong to the character
# before them.
_SINGLE = (
    r"\u2e80-\u2e99\u2e9b-\u2ef3\u2f00-\u2fd5\u3007\u3021-\u3029\u3038-\u303a\u3041-\u3096"
    r"\u309d-\u309f\u3400-\u4db5\u4e00-\u9fd5\uf900-\ufa6d\ufa70-\ufad9"
)
_KATAKANA = r"\u3031-\u3035\u309b\u309c\u30a0-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d"
_EMOJI = (
    r"[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388"
    r"\u23cf\u23e9-\u23f3\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605"
    r"\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2714\u2716\u271d\u2721\u2728\u2733"
    r"\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767\u2795-\u2797\u27a1\u27b0"
    r"\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001f0ff\U0001f18e\U0001f191-\U0001f19a\U0001f201-\U0001f20f\U0001f21a"
    r"\U0001f22f\U0001f232-\U0001f23a\U0001f249-\U0001f53d\U0001f546-\U0001f64f"
    r"\U0001f680-\U0001f6ff\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff\U0001f8ae-\U0001f93a"
    r"\U0001f93c-\U0001f945\U0001f947-\U0001fffd]"
)
_FLAG = r"[\U0001f1e6-\U0001f1ff]{2}"
_NO_WORD = (
    r"\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2139\u2150-\u215f\u2460-\u24ff\u2776-\u2793"
)
_MARKS = (
    r"[\u00ad\u0300-\u036f\u200c-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff"
    r"\U0001f3fb-\U0001f3ff]*"
)
_LETTER_OR_DIGIT = rf"[^\W_{_SINGLE}{_KATAKANA}{_NO_WORD}]"
_LETTER = rf"[^\W\d_{_SINGLE}{_KATAKANA}{_NO_WORD}]"
_BETWEEN_LETTERS = r"[:\u00b7\u2027.'\u2018\u2019\u2024\ufe52\uff07\uff0e\uff1a]"
_BETWEEN_DIGITS = r"[,;.'\u2018\u2019\u2024\u2044\ufe50\ufe52\ufe54\uff07\uff0c\uff0e\uff1b]"
_TOKEN = re.compile(
    rf"[{_SINGLE}]{_MARKS}"
    rf"|(?:[{_KATAKANA}]{_MARKS})+"
    rf"|{_EMOJI}{_MARKS}(?:(?<=\u200d){_EMOJI}{_MARKS})*"
    rf"|{_FLAG}"
    rf"|_*{_LETTER_OR_DIGIT}{_MARKS}"
    rf"(?:(?:{_LETTER_OR_DIGIT}|_){_MARKS}"
    rf"|(?<={_LETTER}){_BETWEEN_LETTERS}(?={_LETTER})"
    rf"|(?<=\d){_BETWEEN_DIGITS}(?=\d))*"
)
_LONGEST_TOKEN = 255  # longer ones are cut into pieces
_POSSESSIVE = re.compile(r"['\u2019\uff07][sS]$")

# PyStemmer's "porter" is the algorithm as published; Lucene's has two rules that its author added,
# bli -> ble and logi -> log behind a vowel and a consonant, and leaves words of two letters alone.
_STEMMER = Stemmer.Stemmer("porter")
_MEASURE = re.compile(r"(?:[aeiou]|(?<=[^aeiou])y)[^aeiou]")
_ADDED_RULES = re.compile(r"(bl|log)(?:y|i|ies)$")


def index_terms(text: str) -> list[str]:
    """The terms of `text`, in order; documents and queries go through this same function."""
    words = [_POSSESSIVE.sub("", token).lower() for token in tokens(text)]
    return [stem(word) for word in words if word not in STOP_WORDS]


def tokens(text: str) -> list[str]:
    """The words of `text` as the standard tokenizer cuts them."""
    return [
        token[start : start + _LONGEST_TOKEN]
        for token in _TOKEN.findall(text)
        for start in range(0, len(token), _LONGEST_TOKEN)
    ]


@functools.lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Porter's stem of a lower-case word, as Lucene computes it."""
    if len(word) <= 2:
        return word
    added = _ADDED_RULES.search(word)
    if added and _MEASURE.search(word, 0, added.start()):
        word = word[: added.start()] + {"bl": "ble", "log": "log"}[added.group(1)]
    return _STEMMER.stemWord(word)
