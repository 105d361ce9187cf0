r"""How a template treats reasoning: where it reads it, how it prints it, and the switch that makes it keep it.

    a reply without           <|assistant|>\noasisSAID…<|end|>
    a reply with reasoning    <|assistant|>\n<mm:think>oasisTHOUGHT…</mm:think>oasisSAID…<|end|>
                                             └ opener ┘              └ closer ┘

Found by rendering a reply whose reasoning is one unique word under each key that clients use. A switch is found by
trying every variable the template reads and nobody set.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import jinja2
import jinja2.meta
from jinja2 import nodes

from oasis_harness.errors import TemplateFailed
from oasis_harness.replies import REASONING_MARKS
from oasis_harness.templates import GenerationTag, Message, Template

from .certificate import Kept, ReasoningForm, Switch
from .sentinels import text_base, tried

__all__ = ["answer_opener", "certify_reasoning", "switch_candidates"]

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
_BLOCKS: Message = {
    "content": {"blocks": [{"type": "thoughts", "text": _REASONING}, {"type": "response", "text": _SAID}]}
}
"""A reply in Apertus' form of a content."""
_CLOSING_TAG = re.compile(r"</([\w:-]*(?:think|thinking|thoughts?|reasoning)(?::\w+)?)>")
_LAST_MARK = re.compile(r"(?:<[^<>\s]+>|\[[A-Za-z_]+\])\s*\Z")
_MAX_NAMES = 32
"""How many variables are tried; of 786 published templates none reads more than 14 that nobody set."""


def certify_reasoning(template: Template, generation_prompt: str, calling: Sequence[Message]) -> ReasoningForm | None:
    """Return how `template` treats reasoning, `kept` still to be judged; None where it knows none.

    `calling` is a conversation that ends with a call, for templates that print reasoning beside calls only.
    """
    opened = generation_prompt.rstrip()
    pairs = _pairs(template.source)
    known = [pair for pair in pairs if pair[1] in template.source]
    switched = (template.under({switch.name: switch.value}) for switch in switch_candidates(template))
    for one in itertools.chain([template], switched if known else ()):  # some read it under their switch only
        for field, history in itertools.product(_FIELDS, (text_base(said=_SAID), calling)):
            marks = _marks(one, history, {field: _REASONING}, pairs) if history else None
            if marks is not None:
                return _form(field, marks if all(map(str.strip, marks)) else _of_prompt(opened, pairs), opened)
    blocks = _marks(template, text_base(said=_SAID), _BLOCKS, pairs)
    if blocks is not None and all(map(str.strip, blocks)):
        return _form("content", blocks, opened)
    if not known:
        return None
    opener, closer = next((pair for pair in known if opened.endswith(pair)), known[0])
    return _form("content", (f"{opener}\n", f"\n{closer}\n\n"), opened)


def answer_opener(template: Template, reasoning_form: ReasoningForm | None) -> str:
    """Return what stands before an answer's words once its reply is opened, and its reasoning closed.

    Most templates write nothing there; harmony writes `<|channel|>final<|message|>`.
    """
    prompt = tried(template, text_base()[:1]) or ""
    alone = tried(template, text_base(said=_SAID), generation_prompt=False) or ""
    before, found, _ = alone.partition(_SAID)
    if not found or not before.startswith(prompt):
        return ""
    opener = before[len(prompt) :]
    mark = reasoning_form.closer.strip() if reasoning_form is not None else ""
    if mark and mark in opener:  # what was thought is empty
        opener = opener.rpartition(mark)[2]
    return opener if opener.strip() else ""


def _form(field: str, marks: tuple[str, str], opened: str) -> ReasoningForm:
    opener, closer = marks
    return ReasoningForm(
        field=field,
        opener=opener,
        closer=closer,
        is_prompted=opened.endswith(opener.strip()),
        is_skipped=opened.endswith(closer.strip()),
        kept=Kept.NEVER,
        switch=None,
    )


@lru_cache(maxsize=8)
def _pairs(source: str) -> tuple[tuple[str, str], ...]:
    """Return the marks that are known, and those of the source that look like them: `<mm:think>`, `</mm:think>`."""
    own = [(f"<{name}>", f"</{name}>") for name in sorted(set(_CLOSING_TAG.findall(source)))]
    return tuple(dict.fromkeys([*REASONING_MARKS, *own]))


def switch_candidates(template: Template) -> Iterator[Switch]:
    """Yield the settings of the variables that the template reads and nobody set."""
    unset = _variables_read(template.source) - _KNOWN - set(template.variables) - set(template.arguments)
    names = sorted(name for name in unset if not name.endswith("_token"))
    for name in sorted(names, key=lambda name: "think" not in name)[:_MAX_NAMES]:  # a name is a hint, no more
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


def _marks(
    template: Template, history: Sequence[Message], reasoning: Message, pairs: Sequence[tuple[str, str]]
) -> tuple[str, str] | None:
    """Return what stands around reasoning, or None where the template does not print it."""
    try:
        text = template.render([*history[:-1], {**history[-1], **reasoning}])
        if _REASONING not in text or "'thoughts'" in text or '"thoughts"' in text:  # it prints what it does not know
            return None
        silent = template.render(history)
        prompt = template.render(history[:-1], generation_prompt=True)
    except TemplateFailed:
        return None
    before, _, after = text.partition(_REASONING)
    return _opener(before, prompt, pairs), _closer(after, silent.removeprefix(prompt), pairs)


def _opener(before: str, prompt: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Return the last known opener in `before` and what follows it, else all since the prompt, or the last mark.

    Where the prompt goes on behind `before`, it opens reasoning in other words than history does.
    """
    at = max(before.rfind(opener, len(before) - 40) for opener, _ in pairs)
    if at >= 0:
        return before[at:]
    if before.startswith(prompt) and before != prompt:
        return before[len(prompt) :]
    mark = _LAST_MARK.search(before)
    if prompt.startswith(before) and prompt != before and (mark is None or "think" not in mark.group()):
        return prompt[len(before) :]
    return mark.group() if mark is not None else before[before.rstrip("\n").rfind("\n") + 1 :]


def _closer(after: str, silent: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Return what follows reasoning up to what the same reply says `silent`, else up to its words, or a known mark."""
    if after.endswith(silent) and after != silent:
        return after[: len(after) - len(silent)]
    if _SAID in after:
        closer = after.partition(_SAID)[0]
        shorter = closer.removesuffix(silent.partition(_SAID)[0])  # less what opens an answer anyway
        return shorter if shorter.strip() else closer
    ends = [after.find(closer) + len(closer) for _, closer in pairs if closer in after]
    end = min(ends, default=0)
    return after[: end + len(after[end:]) - len(after[end:].lstrip("\n"))]


def _of_prompt(opened: str, pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the marks whose opener ends the generation prompt, or else the commonest."""
    opener, closer = next((pair for pair in pairs if opened.endswith(pair)), REASONING_MARKS[0])
    return f"{opener}\n", f"\n{closer}\n\n"
