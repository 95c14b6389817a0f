"""Texts that were also given to the real Lucene; `lucene_golden.json` holds its answers.

The golden file was made with Anserini 0.14.3 (Lucene 8): `IndexCollection -collection
JsonCollection -generator DefaultLuceneDocumentGenerator`, `SearchCollection -topicreader TsvInt
-bm25 -bm25.k1 0.9 -bm25.b 0.4 -hits 50`, and the terms of
`DefaultEnglishAnalyzer.newDefaultInstance()`.
"""

import random

_WORDS = (
    "the of and for with cotton shirts shirt's long-sleeve machine washable women's men's size "
    "x-large 3.5 1,000 100ml steel stainless running runs ran technology technologies possibly "
    "comfortable comfortably relational hopping cats ponies ® café soft softness generously "
    "organizer organizing 2-pack a-line wi-fi usb3.0 o'clock e.g. black/white blue™ easily easy "
    "controlled controlling dishes dish lamp lamps adjustable adjusting sky bed beds oak"
)
WORDS = _WORDS.split()

SENTENCES = [
    "The quick-drying towel's fabric isn't a blend; it's 100% cotton.",
    "Size: 3.5ft x 1,000mm, v1.2.3 (2,5) 3.a a.3 x:y 1:2 o'neil’s",
    "Women’s shirts & men's shirts' DOGS'S",
    "foo_bar _baz_ __ x_1 snake_case's",
    "wi-fi/usb-c e-mail@example.com http://shop.example.com/a?b=c",
    "m² ½ cup №5 10° ± 20µm H₂O ™ ® © 5★ ✔ ❤️ 👍🏽 👨‍👩‍👧 🇫🇷",
    "technology technologies possibly sensibly biology apology us xs as is yes gas bus",
    "relational conditional rationalization hopping falling sky happy cries agreed plastered",
    "crème brûlée naïve Straße ΑΒΓ привет 日本語 ひらがな カタカナ 한국어",
    "no not such that their then there these they this to was will with into it if",
    "soft­hyphen zero‌width e\u0301tude " + "x" * 300,
    "3.14.15 1,2,3 a,b a;b 1;2 a.b.c. U.S.A. Dr. No.",
]


def documents(count: int = 300) -> list[tuple[str, str]]:
    """Ids and texts of 3 to about 120 words, common words being commonest."""
    rng = random.Random(11)
    texts = []
    for number in range(count):
        length = 3 + int(120 * rng.random() ** 2)
        words = [WORDS[int(len(WORDS) * rng.random() ** 2)] for _ in range(length)]
        texts.append((f"d{number * 7919 % 1009:04d}", " ".join(words)))
    return texts


def queries(count: int = 30) -> list[str]:
    """One to eight words each."""
    rng = random.Random(12)
    return [
        " ".join(WORDS[int(len(WORDS) * rng.random())] for _ in range(1 + int(8 * rng.random())))
        for _ in range(count)
    ]
