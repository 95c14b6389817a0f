"""A word-level tokenizer for small models: few ids, one id per word, and decoding that is exact.

Pieces are words with a letter in them (with inner hyphens and apostrophes: "men's", "x-large",
"b0a1c2d3e4") and single other characters, so that numbers come digit by digit. Whitespace is no
piece. Between two pieces decoding puts a space unless `_TIGHT` says otherwise; where a text departs
from that, encoding leaves a mark. So every text of known words and single spaces decodes to itself,
and the actions of the environments hardly ever need a mark.

AutoTokenizer of transformers 5 replaces any tokenizer beside a config.json of model type "qwen2" by
Qwen2's own; give small models another type.
"""

import string
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

UNKNOWN, PADDING, TURN_START, TURN_END = "<unk>", "<pad>", "<|im_start|>", "<|im_end|>"

_SPECIAL = (UNKNOWN, PADDING, TURN_START, TURN_END)
_SPACE_MARK, _JOIN_MARK = "▁", "⁀"
_ROLES = ("system", "user", "assistant")
_ABSENT = "\0"  # in no text

_LETTER, _DIGIT, _ALNUM = r"\p{L}", "[0-9]", r"[\p{L}0-9]"
_HYPHEN = r"['’\-]"
_BEFORE = r"[\[\],.:;!?%)]"  # no space before these
_AFTER = r"[\[(\$#]"  # no space after these

# The places without a space, as contexts (behind, ahead) of the place.
_TIGHT = (
    ("", _BEFORE),
    (_AFTER, ""),
    (_DIGIT, r"[0-9'’\-]"),
    (r"['’\-.,]", _DIGIT),
)
# The places between two pieces that touch although they are in none of those contexts.
_TOUCHING = (
    (r"[^\s\[(\$#]", r"[^\s\p{L}0-9'’\-\[\],.:;!?%)]"),  # anything, then other punctuation
    (r"[^\s\p{L}0-9'’\-\[(\$#.,]", _ALNUM),  # other punctuation, then a word or number
    (r"[.,]", _LETTER),
    (r"[^\s\p{L}0-9\[(\$#]", _HYPHEN),  # punctuation, then a hyphen
    (_LETTER, rf"{_HYPHEN}(?!{_ALNUM})"),  # a hyphen at the end of a word
    (rf"[^\p{{L}}0-9]{_HYPHEN}", _LETTER),  # a hyphen at the start of a word
    (rf"\A{_HYPHEN}", _LETTER),
)
_WORD = (
    rf"(?=[0-9]*(?:{_HYPHEN}[0-9]+)*{_HYPHEN}?[0-9]*{_LETTER})"  # a letter among the digits
    rf"{_ALNUM}+(?:{_HYPHEN}{_ALNUM}+)*"
)

_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    f"{{{{ '{TURN_START}' + message['role'] + '\\n' + message['content'] + '{TURN_END}\\n' }}}}"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{{{{ '{TURN_START}assistant\\n' }}}}{{% endif %}}"
)


def build_word_tokenizer(words: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer that knows the given words, all digits and all ASCII punctuation.

    Special tokens are <unk>, <pad>, <|im_start|> and <|im_end|>, which ends a turn and stops a
    generation; chats are rendered in ChatML. Case matters. The same words give the same ids,
    whatever their order.

    Args:
      words: words, or whole texts of which every piece becomes a word.
    """
    pieces = _pre_tokenizer()
    known = {piece for text in words for piece, _ in pieces.pre_tokenize_str(text)}
    fixed = [*_SPECIAL, _SPACE_MARK, _JOIN_MARK, *string.digits, *string.punctuation, *_ROLES]
    vocabulary = {word: i for i, word in enumerate(fixed + sorted(known - set(fixed)))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_places(_TOUCHING, "")), _JOIN_MARK),
            normalizers.Replace(Regex(_places(_TIGHT, r"\s+")), _SPACE_MARK),
        ]
    )
    tokenizer.pre_tokenizer = pieces
    tokenizer.decoder = _decoder()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        pad_token=PADDING,
        eos_token=TURN_END,
        additional_special_tokens=[TURN_START],
        chat_template=_CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def _places(contexts: tuple[tuple[str, str], ...], between: str) -> str:
    """A pattern of `between` wherever one of the contexts surrounds it."""
    return "|".join(
        (f"(?<={behind})" if behind else "") + between + (f"(?={ahead})" if ahead else "")
        for behind, ahead in contexts
    )


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\s+"), behavior="removed"),
            pre_tokenizers.Split(Regex(rf"{_WORD}|\S"), behavior="isolated"),
        ]
    )


def _decoder() -> decoders.Decoder:
    """Joins pieces by spaces, takes out those in tight places, then obeys the marks."""
    return decoders.Sequence(
        [
            decoders.WordPiece(prefix=_ABSENT, cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(_places(_TIGHT, " ")), ""),
            decoders.Replace(Regex(f" ?{_SPACE_MARK} ?"), " "),
            decoders.Replace(Regex(f" ?{_JOIN_MARK} ?"), ""),
        ]
    )
