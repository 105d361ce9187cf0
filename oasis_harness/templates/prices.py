"""What the work of a chat template costs: a price for each operation it has.

A price is an upper bound of what the operation may write or walk, taken from its operands and paid before it runs, so
that nothing big is ever made and then found too big. No price needs to be exact: a chat template uses a thousandth of
its budget. Unknown operations are dear; only those known to be linear are cheap.
"""

import functools
import operator
import re
import string
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinMethodType, FunctionType
from typing import Any, TypeAlias

from jinja2.utils import Namespace
from markupsafe import Markup

from .budget import INT_BITS, ITEM, Budget, measure, require_text, runaway

__all__ = [
    "COMPARISONS",
    "charge_call",
    "charge_comparison",
    "charge_json",
    "charge_operator",
    "filter_charge",
    "refuse_mapping",
]

Charge: TypeAlias = Callable[[Any, Any, Sequence[Any]], None]

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}

_TEXT_FILTERS = frozenset(
    "capitalize e escape float forceescape int lower safe string trim truncate upper".split()  # noqa: SIM905 - a table
)
_REFERENCE_FILTERS = frozenset("items list map reject rejectattr select selectattr reverse".split())  # noqa: SIM905 - a table
_QUADRATIC_FILTERS = frozenset("pprint striptags urlize wordwrap".split())  # noqa: SIM905 - a table
_TEXT_METHODS = frozenset(
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier "  # noqa: SIM905
    "islower isnumeric isprintable isspace istitle isupper lower lstrip partition removeprefix removesuffix rfind "
    "rindex rpartition rstrip startswith strip swapcase title upper".split()
)
_WRITING_FILTERS = (
    _TEXT_FILTERS
    | _QUADRATIC_FILTERS
    | frozenset(
        "center filesizeformat format indent join replace title urlencode wordcount xmlattr".split()  # noqa: SIM905 - a table
    )
)
"""What makes text of any object it is given."""
_REFERENCE_METHODS = frozenset(
    "append clear get insert items keys pop popitem reverse setdefault values".split()  # noqa: SIM905 - a table
)
_CODECS = frozenset({"utf-8", "utf8", "ascii", "latin-1"})
_WIDTHS = re.compile(r"[%)][-#0 +]*(\d+|\*)?(?:\.(\d+|\*))?")
"""Every width and precision of a `%` format follows its `%`, or the bracket that closes its key."""


def filter_charge(name: str) -> Charge:
    """Return what takes the price of the filter `name` from a budget, given its value and its other arguments."""
    special: dict[str, Charge] = {"replace": _replacement_filter, "format": _format_filter, "tojson": charge_json}
    special |= dict.fromkeys(_TEXT_FILTERS, _linear) | dict.fromkeys(_QUADRATIC_FILTERS, _quadratic)
    charge = special.get(name, _references if name in _REFERENCE_FILTERS else _product)
    return functools.partial(_writing, charge) if name in _WRITING_FILTERS else charge


def _writing(charge: Charge, budget: Budget, value: object, others: Sequence[object]) -> None:
    """Pay for a filter that makes text of what it is given."""
    charge(budget, value, others)
    for one in (value, *others):
        if type(one) is not str:
            require_text(one)


def _references(budget: Budget, value: object, others: Sequence[object]) -> None:
    """Pay for what hands on the items of `value` as they are."""
    n_items = _n_items(value)
    factor = ITEM if isinstance(value, str) else 1
    budget.spend(ITEM * n_items, factor * n_items * (1 + sum(map(_n_items, others)) // ITEM))


def _quadratic(budget: Budget, value: object, others: Sequence[object]) -> None:
    budget.spend(0, measure(value, budget) ** 2 >> 10)
    _product(budget, value, others)


def _replacement_filter(budget: Budget, value: object, others: Sequence[object]) -> None:
    budget.spend(measure(value, budget) + sum(measure(one, budget) for one in others))
    text, (old, new, *_) = str(value), (*map(str, others), "", "")
    _replacement(budget, text, old, new)
    if not isinstance(others, tuple):  # some were given by name, in whatever order
        _replacement(budget, text, new, old)


def _format_filter(budget: Budget, value: object, others: Sequence[Any]) -> None:
    budget.spend(measure(value, budget))
    _percent(budget, str(value), list(others))


def charge_json(budget: Budget, value: object, others: Sequence[object]) -> None:
    """Pay for JSON, which may write a character as six, and its indentation before every item."""
    if others:
        _product(budget, value, others, 8)
    else:
        budget.spend(8 * measure(value, budget))


def charge_comparison(budget: Budget, name: str, left: object, right: object) -> None:
    """Pay for `left` compared to `right`, or looked for in it."""
    if isinstance(left, str | bytes) and isinstance(right, str | bytes):
        n_compared = len(left) * len(right) if name in ("in", "notin") else min(len(left), len(right))
        budget.spend(0, 1 + (n_compared >> 10))
    elif isinstance(left, str) and type(right) is dict:
        budget.spend(0)
    elif type(left) is not int or type(right) is not int:
        budget.spend(0, 1 + (measure(left, budget) + measure(right, budget)) // ITEM)
    elif name == "divisibleby":
        _numbers(left, right)


def charge_operator(budget: Budget, sign: str, left: Any, right: Any) -> None:
    """Pay for the binary operator `sign`."""
    if type(left) is int and type(right) is int and sign in "+-":
        _numbers(left, right)
    elif sign == "%" and isinstance(left, str | bytes):
        _percent(budget, left if isinstance(left, str) else left.decode("latin-1"), [right])
    elif isinstance(left, int) and isinstance(right, int):
        _numbers(left, right, is_power=sign == "**")
        budget.spend(0)
    elif sign == "*":
        times = max(1, *(one for one in (left, right) if isinstance(one, int)), 1)
        budget.spend(sum(_n_characters(one) * times for one in (left, right) if hasattr(one, "__len__")))
    elif sign == "+" or isinstance(left, float) or isinstance(right, float):
        budget.spend(_n_characters(left) + _n_characters(right))
    else:
        budget.spend(measure(left, budget) + measure(right, budget))


def charge_call(budget: Budget, called: Any, values: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Pay for a call of anything but a macro; `named` are the arguments given by name."""
    others = [*values, *named.values()] if named else values
    for one in others:
        if type(one) is Namespace:
            refuse_mapping(one)
    owner = getattr(called, "__self__", None)
    formatted = getattr(called, "__wrapped__", None) if isinstance(called, FunctionType) else None
    if formatted is not None:
        _braces(budget, formatted.__self__, others)
    elif isinstance(owner, Markup):
        (_quadratic if called.__name__ == "striptags" else _product)(budget, owner, others)
    elif isinstance(called, BuiltinMethodType) and not isinstance(owner, type):
        _method(budget, called.__name__, owner, others, is_named=bool(named))
    else:
        factor = 1 if isinstance(called, type) else ITEM
        sizes = [measure(one, budget) * (factor if isinstance(one, str | bytes) else 1) for one in others]
        budget.spend(ITEM + sum(sizes))


def refuse_mapping(value: Any) -> None:
    """Refuse a namespace that poses as a mapping: Python itself would call its `keys`, and nobody would pay."""
    if type(value) is Namespace and "keys" in value._Namespace__attrs:
        raise runaway("it uses a namespace as a mapping")


def _method(budget: Budget, name: str, owner: Any, others: Sequence[Any], *, is_named: bool) -> None:
    if isinstance(owner, dict | list):
        if name == "sort" and any(map(callable, others)):
            raise runaway("it sorts by a function")
        if name in _REFERENCE_METHODS:
            for key in others:
                if isinstance(key, tuple):
                    measure(key, budget)
            budget.spend(ITEM, 1 + (len(owner) >> 6 if isinstance(owner, list) and name != "append" else 0))
        else:
            n_new = sum(_n_items(one) for one in others)
            walked = sum(measure(one, budget) for one in (owner, *others))
            budget.spend(ITEM * n_new + 8 * len(owner), 1 + walked // ITEM)
    elif name in _TEXT_METHODS:
        _linear(budget, owner, others)
    elif name in ("split", "rsplit") and others and isinstance(others[0], str) and others[0] and not is_named:
        _linear(budget, owner, others[:1])
        budget.spend(ITEM * (1 + owner.count(others[0])))
    elif name == "replace" and type(owner) is str and not is_named and all(type(one) is str for one in others[:2]):
        _replacement(budget, owner, *others[:2])
    elif name in ("encode", "decode") and not {one for one in others if isinstance(one, str)} <= _CODECS:
        raise runaway("it uses a text encoding other than UTF-8")
    else:
        _product(budget, owner, others)


def _linear(budget: Budget, value: object, others: Sequence[object]) -> None:
    """Pay for what writes no more than it reads; looking for one text in another takes steps for both lengths."""
    if type(value) is str and not others:
        budget.spend(len(value))
        return
    size = measure(value, budget)
    n_others = sum(measure(one, budget) for one in others)
    budget.spend(size + n_others, 1 + (size * n_others >> 10))


def _product(budget: Budget, value: object, others: Sequence[object], factor: int = 1) -> None:
    """Pay for what may write every argument once for every character, and make an item of every character."""
    size = measure(value, budget)
    factor = ITEM if isinstance(value, str | bytes) else factor
    n_others = sum(abs(one) if isinstance(one, int) else measure(one, budget) for one in others)
    budget.spend((1 + size) * max(factor, 1 + n_others))


def _replacement(budget: Budget, text: str, old: str = "", new: str = "") -> None:
    budget.spend(len(text), 1 + (len(text) * len(old) >> 10))
    budget.spend(text.count(old) * len(new))


def _percent(budget: Budget, form: str, values: Sequence[Any]) -> None:
    budget.spend(len(form) + ITEM * (form.count("%") + form.count(")")))
    widths = [width for match in _WIDTHS.finditer(form) for width in match.groups() if width]
    given = values[0] if len(values) == 1 and isinstance(values[0], tuple) else values
    widest = max((abs(one) for one in given if isinstance(one, int)), default=0)
    n_filled = sum(widest if width == "*" else int(width[:12]) for width in widths)
    budget.spend(n_filled + form.count("%") * measure(values, budget))
    require_text(list(values))


def _braces(budget: Budget, form: str, values: Sequence[Any]) -> None:
    budget.spend(len(form) + ITEM * form.count("{"))
    n_filled = 0
    for _, _, layout, _ in string.Formatter().parse(form):
        if layout and "{" in layout:
            raise runaway("it formats to a width that it computes")
        n_filled += sum(int(width.lstrip("0")[:12] or 0) for width in re.findall(r"\d+", layout or ""))
    budget.spend(n_filled + form.count("{") * measure(values, budget))
    require_text(list(values))


def _numbers(left: int, right: int, *, is_power: bool = False) -> None:
    n_bits = left.bit_length() * max(1, right) if is_power else left.bit_length() + right.bit_length()
    if n_bits > INT_BITS:
        raise runaway(f"it computes with numbers of more than {INT_BITS} bits")


def _n_items(value: object) -> int:
    return len(value) if hasattr(value, "__len__") else 1


def _n_characters(value: object) -> int:
    """Return what a copy of `value` takes, in characters: eight for a reference."""
    if isinstance(value, str | bytes):
        return len(value)
    return 8 * len(value) if isinstance(value, list | tuple | dict) else 8
