"""Texts of textworld's grammars, faster: what the stock grammar derives, to the byte.

The stock one parses the same strings again for every command that it lists and deep-copies the
scope of every symbol. Here each string is parsed once, and scopes are small and never change.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from textworld.envs.pddl import textgen
from textworld.logic import Rule

_parse = lru_cache(maxsize=4096)(
    lambda text: tuple(textgen._parse_and_convert(text, rule_name="symbols"))
)
_query = lru_cache(maxsize=4096)(Rule.parse_conjunctive_query)


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> CodeType:
    return compile(expression.strip(), "<grammar>", "eval")


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where a symbol is derived.

    Attributes:
      context: the stock grammar's scope that the derivation began with.
      mapping: the state's variables of placeholders.
      variables: entities by the names that expressions use.
    """

    context: Mapping[str, Any]
    mapping: Mapping[Any, Any]
    variables: Mapping[str, Any]

    def matches(self, condition: str) -> Iterator["_Scope"]:
        """Scopes in which a condition holds, in the state's order."""
        entities = self.context["entity_infos"]
        for found in self.context["state"].all_assignments(_query(condition), self.mapping):
            known = {place.name: entities[variable.name] for place, variable in found.items()}
            yield _Scope(self.context, {**self.mapping, **found}, {**self.variables, **known})


class QuickGrammar:
    """Derives texts by the rules of a stock grammar.

    Attributes:
      rules: of the stock grammar, by the symbol that they replace.
      task: the text of the symbol "task", which differs from game to game; None where rules say it.
    """

    def __init__(self, stock: textgen.ContextSensitiveGrammar, *, task: str | None):
        self.rules = stock._rules
        self.task = task

    def derive(self, start: str, context: Mapping[str, Any]) -> str:
        """The text of a string with symbols, in the stock grammar's scope."""
        return self._text(_parse(start), _Scope(context, context["mapping"], context["variables"]))

    def is_fixed(self, start: str, changing: frozenset[str]) -> bool:
        """Whether a string keeps its text, in one scope, while facts of some predicates change."""
        for symbol in _parse(start):
            inner = symbol.symbol if isinstance(symbol, textgen.ListSymbol) else symbol
            if isinstance(inner, textgen.ConditionalSymbol):
                conditions = _query(inner.given).preconditions if inner.given else ()
                if any(condition.name.removeprefix("not_") in changing for condition in conditions):
                    return False
                inner = inner.expression
            if not isinstance(inner, textgen.TerminalSymbol | textgen.EvalSymbol):
                return False  # rules replace it, which have conditions of their own
        return True

    def _text(self, symbols: tuple[textgen.Symbol, ...], scope: _Scope) -> str:
        return "".join(text for symbol in symbols for text in self._texts(symbol, scope))

    def _texts(self, symbol: textgen.Symbol, scope: _Scope) -> list[str]:
        """The texts that one symbol stands for: several only where a condition holds often."""
        match symbol:
            case textgen.NonterminalSymbol():
                return [self._replaced(str(symbol), scope)]
            case textgen.EvalSymbol():
                return [str(eval(_compiled(symbol.expression), {}, dict(scope.variables)))]
            case textgen.ConditionalSymbol():
                scopes = scope.matches(symbol.given) if symbol.given else [scope]
                return ["".join(self._texts(symbol.expression, inner)) for inner in scopes]
            case textgen.ListSymbol():
                listed: Any = symbol.symbol
                return [self._listed(self._texts(listed, scope), scope)]
            case _:
                return [str(symbol)]

    def _replaced(self, name: str, scope: _Scope) -> str:
        if name == "task" and self.task is not None:
            return self.task
        rule = next(r for r in self.rules[name] if self._holds(r.condition, scope))
        return self._text(tuple(rule.rhs), scope)

    def _holds(self, condition: str, scope: _Scope) -> bool:
        return not condition or any(True for _ in scope.matches(condition))

    def _listed(self, texts: list[str], scope: _Scope) -> str:
        if not texts:
            return self._replaced("list_empty", scope)
        if len(texts) == 1:
            return texts[0]
        separator = self._replaced("list_separator", scope)
        last_separator = self._replaced("list_last_separator", scope)
        return separator.join(texts[:-1]) + last_separator + texts[-1]
