"""Small templates that were certified wrongly, each for a kind of real ones. The right answer to each is here."""

from pathlib import Path

import pytest

from oasis_harness.certify import BoundaryName, Certificate, Kept, Switch, certify_template
from oasis_harness.certify.certificate import Anchor, Mode
from oasis_harness.conversation import Head
from oasis_harness.render import Dialect, Renderer
from oasis_harness.replies import JSON_CALLS, CallSyntax
from oasis_harness.templates import Template

from ..render.talk import EPOCH

FOLDER = Path(__file__).parents[1] / "fixtures" / "templates"
BESIDE_TOOLS, DROPS_WORDS, NEWLINE, OTHER_MARK, DESCRIBED = (
    (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    for name in (
        "thinks-only-beside-tools",
        "drops-words-beside-a-call",
        "newline-before-the-closer",
        "another-thinking-mark",
        "wants-a-description-of-each-parameter",
    )
)
either_syntax = pytest.mark.parametrize("syntax", [JSON_CALLS, None], ids=["known", "unknown"])


def certificate(source: str, syntax: CallSyntax | None = JSON_CALLS, **arguments: object) -> Certificate:
    return certify_template(Template(source, arguments=arguments), syntax)


@either_syntax
def test_a_template_that_keeps_reasoning_beside_tools_only_is_of_class_b(syntax: CallSyntax | None) -> None:
    """DeepSeek-V4-Flash and Hy3 do: with tools nothing is lost, without them what was thought goes at a user turn."""
    found = certificate(BESIDE_TOOLS, syntax)
    assert (found.letter, found.letters) == ("B", {Mode.TOOLS: "A", Mode.BARE: "B"})
    broken = found.boundary(BoundaryName.USER).broken
    assert broken is not None and (broken.what, broken.mode) == ("reasoning", Mode.BARE)
    assert found.boundary(BoundaryName.RESULT).broken is None
    assert found.reasoning_form is not None
    assert (found.reasoning_form.kept, found.reasoning_form.switch) == (Kept.WITHIN_TURN, None)


@pytest.mark.parametrize("name, value", [("drop_thinking", False), ("preserved_thinking", True)])
def test_a_switch_that_keeps_it_without_tools_too_is_set(name: str, value: bool) -> None:
    condition = f"({name} is defined and {'not ' * (not value)}{name})"
    source = BESIDE_TOOLS.replace("(tools or loop.last)", f"(tools or loop.last or {condition})")
    dialect = Dialect.compose(source, syntax=JSON_CALLS)
    assert dialect.switch == Switch(name, value)
    assert dialect.certificate.letter == "A" and not dialect.drops_reasoning


def test_what_is_lost_beside_tools_only_is_found_as_well() -> None:
    source = BESIDE_TOOLS.replace("(tools or loop.last)", "(not tools or loop.last)")
    found = certificate(source)
    assert found.letters == {Mode.TOOLS: "C", Mode.BARE: "A"} and found.letter == "C"


def test_what_is_lost_without_a_system_text_only_is_found_as_well() -> None:
    source = "{% set bare = messages[0].role != 'system' and messages | length > 2 %}{% if bare %}<long>{% endif %}"
    found = certificate(source + NEWLINE)
    assert found.has_system and found.letter != "A"


@either_syntax
def test_a_template_that_drops_words_beside_a_call_breaks_at_the_result(syntax: CallSyntax | None) -> None:
    """Llama-3.1, Cohere2MoE and others; compared is what the model said, not what the template leaves of it."""
    found = certificate(DROPS_WORDS, syntax)
    broken = found.boundary(BoundaryName.RESULT).broken
    assert found.letter == "C" and broken is not None
    assert (broken.what, broken.offset.anchor, broken.offset.n_bytes) == ("reply", Anchor.LAST_REPLY, 0)
    assert found.boundary(BoundaryName.USER).broken is None


def test_a_template_that_drops_a_second_call_or_the_call_beside_words_breaks_too() -> None:
    for old, new in (
        ("for c in m.tool_calls %}", "for c in m.tool_calls[:1] %}"),
        ("for c in m.tool_calls %}", "for c in m.tool_calls[-1:] %}"),
        ("{%- if m.tool_calls -%}", "{%- if m.tool_calls and not m.content -%}"),
    ):
        whole = DROPS_WORDS.replace("{{ '<A>' }}{%- for c", "{{ '<A>' + m.content }}{%- for c")
        source = whole.replace(old, new)
        assert source != whole != DROPS_WORDS
        assert certificate(whole).letter == "A"
        assert certificate(source).letter == "C", new


def test_a_template_that_wants_a_description_of_each_parameter_prints_tools() -> None:
    """Command-R+ does: a tool has what real tools have."""
    found = certificate(DESCRIBED)
    assert found.has_tools and found.calls is not None and found.letter == "A"


@pytest.mark.parametrize("part", ["p.description", "p.type + (t.function.parameters.required | join)", "p['type']"])
def test_so_does_one_that_wants_what_any_real_schema_has(part: str) -> None:
    assert certificate(DESCRIBED.replace("p.description", part)).has_tools


BESIDE_SYSTEM = NEWLINE.replace("tools or []", "(tools or [] if messages[0].role == 'system' else [])")


def test_a_template_that_prints_tools_beside_a_system_message_only_is_given_an_empty_one() -> None:
    found = certificate(BESIDE_SYSTEM)
    assert (found.has_tools, found.tools_need_system) == (True, True) and found.calls is not None
    assert not certificate(NEWLINE).tools_need_system
    head = Head(EPOCH, b"", (b'{"type": "function", "function": {"name": "shell", "parameters": {}}}',))
    prompt = Renderer(Dialect.compose(BESIDE_SYSTEM, syntax=JSON_CALLS)).head(head)
    assert prompt == b"[TOOL]shell\n<system><user>"


def test_a_head_without_tools_is_given_no_system_message() -> None:
    assert Renderer(Dialect.compose(BESIDE_SYSTEM, syntax=JSON_CALLS)).head(Head(EPOCH, b"")) == b"<user>"


def test_results_that_are_printed_beside_tools_only_are_found() -> None:
    """Falcon-3 has one form of a conversation for each."""
    source = "{% if not tools %}{% set messages = messages | rejectattr('role', 'eq', 'tool') | list %}{% endif %}"
    found = certificate(source + NEWLINE)
    assert found.needs_tools and found.native is not None and found.boundary(BoundaryName.RESULT).is_evaluated


def test_calls_that_no_delta_can_follow_are_re_rendered_all_the_same() -> None:
    """A client that uses them must know where they break; Command-R7B was said to print no results."""
    source = NEWLINE.replace("m.content or ''", "(m.content or '') * 1").replace("<tool_call>\\n", "<tool_call>")
    twice = source.replace("c.function|tojson", "(c.function|tojson) * 2")
    found = certificate(twice)
    assert found.native is None and found.boundary(BoundaryName.RESULT).is_evaluated
    dropped = twice.replace("m.content or ''", "m.content if not m.tool_calls else ''")
    assert certificate(dropped).letter == "C"


def test_why_no_result_is_tried_is_said_in_the_templates_own_words() -> None:
    refusing = "{% for m in messages if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endfor %}"
    found = certificate(refusing + NEWLINE).boundary(BoundaryName.RESULT)
    assert (found.is_evaluated, found.reason) == (False, "no tools here")
    silent = "{% set messages = messages | rejectattr('role', 'eq', 'tool') | list %}"
    found = certificate(silent + NEWLINE).boundary(BoundaryName.RESULT)
    assert (found.is_evaluated, found.reason) == (False, "the template prints no results")
