"""How a template treats reasoning: where it reads it, how it prints it, and the switch that makes it keep it.

Found by rendering a reply whose reasoning is one unique word under each key that clients use. A switch is found by
trying every variable the template reads and nobody set.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache

import jinja2
import jinja2.meta
from jinja2 import nodes

from oasis_harness.errors import TemplateFailed
from oasis_harness.replies import REASONING_MARKS
from oasis_harness.templates import GenerationTag, Message, Template

from .certificate import Kept, ReasoningForm, Switch
from .sentinels import text_base

__all__ = ["certify_reasoning", "switch_candidates"]

_REASONING, _SAID = "oasisTHOUGHT6f0b", "oasisSAID9d02"
_FIELDS = ("reasoning_content", "reasoning", "thinking")
_KNOWN = frozenset(
    {
        *("messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token", "unk_token"),
        *("pad_token", "raise_exception", "strftime_now", "namespace", "range", "dict", "enable_thinking"),
    }
)
"""What every template may read, and the one switch that turns reasoning off altogether."""
_ASKING = frozenset({"defined", "undefined", "none", "default", "d"})
_VALUES: tuple[bool | str, ...] = (True, False, "all")
_MAX_NAMES = 32
"""How many variables are tried; of 786 published templates none reads more than 14 that nobody set."""


def certify_reasoning(template: Template, generation_prompt: str, calling: Sequence[Message]) -> ReasoningForm | None:
    """Return how `template` treats reasoning, `kept` still to be judged; None where it knows none.

    `calling` is a conversation that ends with a call, for templates that print reasoning beside calls only.
    """
    opened = generation_prompt.rstrip()
    is_prompted = any(opened.endswith(opener) for opener, _ in REASONING_MARKS)
    is_skipped = any(opened.endswith(closer) for _, closer in REASONING_MARKS)
    known = [pair for pair in REASONING_MARKS if pair[1] in template.source]
    switched = (template.under({switch.name: switch.value}) for switch in switch_candidates(template))
    for tried in itertools.chain([template], switched if known else ()):  # some read it under their switch only
        for field, history in itertools.product(_FIELDS, (text_base(said=_SAID), calling)):
            marks = _marks(tried, history, field) if history else None
            if marks is not None:
                marks = _of_prompt(opened) if not all(map(str.strip, marks)) else marks
                return ReasoningForm(field, *marks, is_prompted, is_skipped, Kept.NEVER, None)
    if not known:
        return None
    opener, closer = known[0]
    return ReasoningForm("content", f"{opener}\n", f"\n{closer}\n\n", is_prompted, is_skipped, Kept.NEVER, None)


def switch_candidates(template: Template) -> Iterator[Switch]:
    """Yield the settings of the variables that the template reads and nobody set."""
    unset = _variables_read(template.source) - _KNOWN - set(template.variables) - set(template.arguments)
    for name in sorted(name for name in unset if not name.endswith("_token"))[:_MAX_NAMES]:
        yield from (Switch(name, value) for value in _VALUES)


@lru_cache(maxsize=8)
def _variables_read(source: str) -> frozenset[str]:
    """Return the variables that a template reads and does not itself set; none where it does not parse."""
    environment = jinja2.Environment(extensions=[GenerationTag, "jinja2.ext.loopcontrols"])
    try:
        tree = environment.parse(source)
        read = jinja2.meta.find_undeclared_variables(tree)
    except (jinja2.TemplateError, RecursionError):
        return frozenset()
    own = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"} - _defaulted(tree)
    return frozenset(read - own)


def _defaulted(tree: nodes.Template) -> set[str]:
    """Return the variables that are asked whether somebody set them; what else a branch sets is the template's own."""
    asked = [node.node for node in tree.find_all((nodes.Test, nodes.Filter)) if node.name in _ASKING]
    return {node.name for node in asked if isinstance(node, nodes.Name)}


def _marks(template: Template, history: Sequence[Message], field: str) -> tuple[str, str] | None:
    """Return what stands around reasoning, or None where the template does not print it."""
    try:
        text = template.render([*history[:-1], {**history[-1], field: _REASONING}])
        silent = template.render(history)
        prompt = template.render(history[:-1], generation_prompt=True)
    except TemplateFailed:
        return None
    before, found, after = text.partition(_REASONING)
    if not found:
        return None
    return _opener(before, prompt), _closer(after, silent.removeprefix(prompt))


def _opener(before: str, prompt: str) -> str:
    """Return the last known opener in `before` and what follows it, else all since the prompt, or the last line."""
    at = max(before.rfind(opener, len(before) - 40) for opener, _ in REASONING_MARKS)
    if at < 0:
        at = len(prompt) if before.startswith(prompt) else before.rstrip("\n").rfind("\n") + 1
    return before[at:]


def _closer(after: str, silent: str) -> str:
    """Return what follows reasoning up to what the same reply says `silent`, else up to its words, or a known mark."""
    if after.endswith(silent) and after != silent:
        return after[: len(after) - len(silent)]
    if _SAID in after:
        return after.partition(_SAID)[0]
    ends = [after.find(closer) + len(closer) for _, closer in REASONING_MARKS if closer in after]
    end = min(ends, default=0)
    return after[: end + len(after[end:]) - len(after[end:].lstrip("\n"))]


def _of_prompt(opened: str) -> tuple[str, str]:
    """Return the marks whose opener ends the generation prompt, or else the commonest."""
    for opener, closer in REASONING_MARKS:
        if opened.endswith((opener, closer)):
            return f"{opener}\n", f"\n{closer}\n\n"
    opener, closer = REASONING_MARKS[0]
    return f"{opener}\n", f"\n{closer}\n\n"
