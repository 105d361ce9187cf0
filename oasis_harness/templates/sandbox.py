"""The sandbox a chat template runs in: it can neither reach out nor run away.

Attribute escapes are jinja2's to refuse. What jinja2 does not bound is work, so every render has a `Budget`, and
whatever can take long or grow pays from it before it happens: an iteration as much as its body has nodes; a call,
filter, test or operator the most it may write. A template that cannot pay is stopped, on every machine alike.
Facts: https://jinja.palletsprojects.com/en/stable/sandbox/
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import BuiltinMethodType, GeneratorType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import SandboxedEnvironment, modifies_known_mutable
from jinja2.utils import Namespace, _PassArg, pass_context

from .budget import Budget, Purse, runaway
from .charges import BUDGET, PRICES, Charges, each, size
from .prices import charge_call, charge_comparison, charge_json, charge_operator, filter_charge

__all__ = ["BoundedEnvironment"]

LONGEST_SOURCE = 1_000_000
"""Characters of a template; the longest of 786 published ones has 45 thousand."""

_FREE_FILTERS = frozenset({"abs", "attr", "count", "d", "default", "first", "last", "length"})
_COMPARING_TESTS = {
    "==": "eq",
    "eq": "eq",
    "equalto": "eq",
    "!=": "ne",
    "ne": "ne",
    "in": "in",
    "divisibleby": "divisibleby",
    ">": "gt",
    "gt": "gt",
    "greaterthan": "gt",
    ">=": "gteq",
    "ge": "gteq",
    "<": "lt",
    "lt": "lt",
    "lessthan": "lt",
    "<=": "lteq",
    "le": "lteq",
}
_CHANGES = re.compile(r"\.\s*(append|clear|extend|insert|pop|popitem|remove|reverse|setdefault|sort|update)\s*\(")
_PLAIN = {str, dict, list}
_WITHOUT_SECRETS = {str, LoopContext, Namespace}
"""What has nothing to hide but private names; asking jinja2 takes longer."""
_NAMES_OF_DICT = frozenset(dir(dict))
_OWN_KEYWORDS = frozenset({"_loop_vars", "_block_vars", "caller"})
"""What compiled templates add to the arguments of a call."""


class BoundedEnvironment(SandboxedEnvironment):
    """A sandbox for one template, whose every render is bounded.

    A template that says `.append(` or the like may change lists and dicts: it works on private copies of what it is
    given. Any other may not, by whatever way it gets at a method. Call `seal` when every filter is registered.
    """

    intercepted_binops = frozenset(SandboxedEnvironment.default_binop_table)
    n_nodes = 0
    n_literal = 0
    is_changing = False

    def seal(self) -> None:
        """Put a price on every filter and test there is now."""
        for name, function in self.filters.items():
            if name not in _FREE_FILTERS:
                self.filters[name] = _priced(function, filter_charge(name))
        for name, comparison in _COMPARING_TESTS.items():
            self.tests[name] = _priced(self.tests[name], functools.partial(_charge_test, comparison))
        for name in ("lower", "upper"):
            self.tests[name] = _priced(self.tests[name], filter_charge(name))
        self.filters.update(PRICES)

    def render(self, template: jinja2.Template, inputs: Mapping[str, Any], purse: Purse | None = None) -> str:
        """Render `template` within a budget of the size of `inputs`, which stay as they are; `purse` pays for it.

        Raises:
            TemplateRunaway: The budget does not suffice, or Python's own bounds were met first.
        """
        budget = Budget(inputs)
        if purse is not None:
            purse.require()
        try:
            given = deepcopy(dict(inputs)) if self.is_changing else inputs
            return template.render({**given, BUDGET: budget})
        except RecursionError:
            raise runaway("its recursion goes deeper than Python can follow") from None
        except (MemoryError, OverflowError) as error:
            raise runaway(str(error.args[-1]).rstrip(".") if error.args else "out of memory") from None
        finally:
            if purse is not None:
                purse.pay(budget)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        if len(source) > LONGEST_SOURCE:
            raise jinja2.TemplateSyntaxError(f"it is longer than {LONGEST_SOURCE} characters", 1)
        tree = super()._parse(source, name, filename)
        self.n_nodes, self.n_literal = size(tree)
        self.is_changing = bool(_CHANGES.search(source))
        Charges().visit(tree)
        tree.set_environment(self)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Pay for a binary operator, and apply it."""
        budget: Budget = context.parent[BUDGET]
        charge_operator(budget, operator, left, right)
        return self.binop_table[operator](left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Refuse private attributes, and methods that change a list or dict which others hold too."""
        if type(obj) in _WITHOUT_SECRETS:
            return not attr.startswith("_")
        is_safe = super().is_safe_attribute(obj, attr, value)
        return is_safe and (self.is_changing or not modifies_known_mutable(obj, attr))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute, else an item. Most are items of a message, where asking for an attribute is slow."""
        if type(obj) is dict and attribute not in _NAMES_OF_DICT:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Subscribe, but not by a tuple that would take long to hash, or more of the C stack than there is."""
        if isinstance(argument, tuple) and (len(argument) > 9 or any(isinstance(one, tuple) for one in argument)):
            raise runaway("it looks something up by a long or nested tuple")
        return super().getitem(obj, argument)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as its base
        """Pay for a call, and make it. A macro pays in its body."""
        budget: Budget = __context.parent[BUDGET]
        if not isinstance(__obj, Macro | LoopContext | BlockReference):
            args = _held(args) if GeneratorType in map(type, args) else args
            named = {name: kwargs[name] for name in kwargs if name not in _OWN_KEYWORDS}
            charge_call(budget, __obj, args, named)
            if type(__obj) is BuiltinMethodType and type(__obj.__self__) in _PLAIN:
                return __obj(*args, **named)
            return super().call(__context, __obj, *args, **kwargs)
        if isinstance(__obj, LoopContext):
            args = tuple(each(__context, one, __self.n_nodes, __self.n_literal) for one in args)
        budget.enter()
        result = super().call(__context, __obj, *args, **kwargs)
        budget.depth -= 1
        return result


def _priced(function: Any, charge: Callable[..., None]) -> Callable[..., Any]:
    """Return a filter or test that pays first. It is never evaluated at compile time, where there is no budget."""
    passed = _PassArg.from_obj(function)

    @pass_context
    @functools.wraps(function)
    def priced(context: Context, *args: Any, **kwargs: Any) -> Any:
        budget: Budget = context.parent[BUDGET]
        if GeneratorType in map(type, args) and charge is not charge_json:
            args = _held(args)
        charge(budget, args[0], [*args[1:], *kwargs.values()] if kwargs else args[1:])
        if passed is _PassArg.context:
            args = (context, *args)
        elif passed is _PassArg.eval_context:
            args = (context.eval_ctx, *args)
        elif passed is _PassArg.environment:
            args = (context.environment, *args)
        result = function(*args, **kwargs)
        return _counted(budget, result) if isinstance(result, Iterator) else result

    return priced


def _held(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `args` with lists for generators, so that none feeds on what it fills and none stands on another."""
    return tuple(list(one) if isinstance(one, GeneratorType) else one for one in args)


def _counted(budget: Budget, items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        budget.spend(0)
        yield item


def _charge_test(name: str, budget: Budget, value: Any, others: Sequence[Any]) -> None:
    for other in others:
        charge_comparison(budget, name, value, other)
