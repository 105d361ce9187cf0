"""Makes a template's syntax tree pay for what no hook of jinja2's sandbox sees: loops, output, comparisons, slices.

Every price is a filter put around an expression, under a name that no template can spell. It takes what the expression
may cost from the budget in the context, and hands on the value.
"""

from collections.abc import Callable
from types import GeneratorType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.runtime import Context, LoopContext
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from .budget import Budget, measure, require_text
from .prices import COMPARISONS, charge_comparison, charge_operator, refuse_mapping

__all__ = ["BUDGET", "PRICES", "Charges", "each", "size"]

BUDGET = " budget"
"""Where the context holds it; no template can spell that either."""
_ONLY_TEXT = {str}


@pass_context
def each(context: Context, value: Any, n_nodes: int, n_literal: int) -> Any:
    """Pay for a loop over `value`. It is over what a list holds now, not over what its body will append."""
    if isinstance(value, list | GeneratorType | LoopContext):
        value = tuple(value)
    if hasattr(value, "__len__"):
        budget: Budget = context.parent[BUDGET]
        budget.spend(len(value) * n_literal, 1 + len(value) * n_nodes)
    return value


@pass_context
def _entered(context: Context, n_nodes: int, n_literal: int) -> None:
    context.parent[BUDGET].spend(n_literal, n_nodes)


@pass_context
def _written(context: Context, value: Any) -> Any:
    context.parent[BUDGET].spend(measure(value, context.parent[BUDGET]))
    require_text(value)
    return value


@pass_context
def _output(context: Context, *values: Any) -> str:
    """Write what stands between two statements, at once."""
    if set(map(type, values)) == _ONLY_TEXT:
        _pay_for_texts(context, values)
        return "".join(values)
    return "".join([str(_written(context, value)) for value in values])


@pass_context
def _added(context: Context, *values: Any) -> Any:
    """Add from left to right; a chain of texts at once, since that is what templates are made of."""
    if set(map(type, values)) == _ONLY_TEXT:
        _pay_for_texts(context, values)
        return "".join(values)
    total = values[0]
    for value in values[1:]:
        charge_operator(context.parent[BUDGET], "+", total, value)
        total = total + value
    return total


def _pay_for_texts(context: Context, texts: tuple[str, ...]) -> None:
    budget: Budget = context.parent[BUDGET]
    budget.characters -= sum(map(len, texts))
    if budget.characters < 0:
        budget.spend(0)


@pass_context
def _copied(context: Context, value: Any) -> Any:
    refuse_mapping(value)
    if hasattr(value, "__len__"):
        context.parent[BUDGET].spend(len(value) * (1 if isinstance(value, str) else 8))
    return value


@pass_context
def _compared(context: Context, left: Any, *pairs: Any) -> Any:
    """Compare as Python chains comparisons."""
    result: Any = True
    for name, right in zip(pairs[::2], pairs[1::2], strict=True):
        right = list(right) if isinstance(right, GeneratorType) else right
        charge_comparison(context.parent[BUDGET], name, left, right)
        result = COMPARISONS[name](left, right)
        if not result:
            break
        left = right
    return result


PRICES: dict[str, Callable[..., Any]] = {
    " added": _added,
    " each": each,
    " entered": _entered,
    " output": _output,
    " written": _written,
    " copied": _copied,
    " compared": _compared,
}


class Charges(NodeTransformer):
    """Rewrites a syntax tree so that what no hook of the sandbox sees pays too."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - the name of the node
        n_nodes, n_literal = size(node)
        self.generic_visit(node)
        node.iter = _through(" each", node.iter, nodes.Const(n_nodes), nodes.Const(n_literal))
        return node

    def visit_Macro(self, node: Any) -> nodes.Node:  # noqa: N802
        n_nodes, n_literal = size(node)
        self.generic_visit(node)
        paid = _through(" entered", nodes.Const(n_nodes), nodes.Const(n_literal))
        node.body.insert(0, nodes.ExprStmt(paid, lineno=node.lineno))
        return node  # type: ignore[no-any-return]  # three kinds of node come here

    visit_CallBlock = visit_Block = visit_Macro  # noqa: N815

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not all(map(_is_small, node.nodes)):
            node.nodes = [_through(" output", *map(_as_constant, node.nodes))]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [one if _is_small(one) else _through(" written", one) for one in node.nodes]
        return node

    def visit_Add(self, node: nodes.Add) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        left = node.left
        if isinstance(left, nodes.Filter) and left.name == " added":
            left.args.append(node.right)
            return left
        return _through(" added", left, node.right)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if len(node.ops) == 1:
            is_search = node.ops[0].op in ("in", "notin")
            if _is_small(node.ops[0].expr) or (_is_small(node.expr) and not is_search):
                return node
        pairs = [part for one in node.ops for part in (nodes.Const(one.op), one.expr)]
        return _through(" compared", node.expr, *pairs)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _through(" copied", node.node)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not _is_small(node.key):
            node.key = _through(" written", node.key)
        return node

    def visit_Call(self, node: Any) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.dyn_args is not None:
            node.dyn_args = _through(" each", node.dyn_args, nodes.Const(1), nodes.Const(64))
        if node.dyn_kwargs is not None:
            node.dyn_kwargs = _through(" copied", node.dyn_kwargs)
        return node  # type: ignore[no-any-return]  # three kinds of node come here

    visit_Filter = visit_Test = visit_Call  # noqa: N815

    def visit_Include(self, node: nodes.Node) -> nodes.Node:  # noqa: N802
        kind = type(node).__name__.lower()
        raise jinja2.TemplateAssertionError(f"it reads another file ({kind}), and a chat template is one", node.lineno)

    visit_Import = visit_FromImport = visit_Extends = visit_Include  # noqa: N815

    def visit_ScopedEvalContextModifier(self, node: nodes.Node) -> nodes.Node:  # noqa: N802
        raise jinja2.TemplateAssertionError("it escapes HTML (autoescape), and a prompt is none", node.lineno)


def _through(price: str, first: nodes.Node, *others: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(first, price, list(others), [], None, None, lineno=first.lineno)


def _is_small(node: nodes.Node) -> bool:
    """Say whether what `node` writes, or is compared to, is as long as its own source."""
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(map(_is_small, node.items))
    return isinstance(node, nodes.Const | nodes.TemplateData)


def _as_constant(node: nodes.Expr) -> nodes.Expr:
    return nodes.Const(node.data, lineno=node.lineno) if isinstance(node, nodes.TemplateData) else node


def size(node: nodes.Node) -> tuple[int, int]:
    """Return how many nodes stand below `node`, and how many characters of literal text."""
    below = list(node.find_all(nodes.Node))
    return 1 + len(below), sum(len(one.data) for one in below if isinstance(one, nodes.TemplateData))
