"""Spans: every byte of a prompt has an owner, and the owner is the right one or a coarser one, never another."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.conversation import Conversation, Note, Reply, ToolResult, ToolResults, ToolsAdded, User
from oasis_harness.errors import UnsupportedTemplate
from oasis_harness.render import Delta, Renderer, Resolution, Span

from .families import EXTENDING, REWRITING, Family
from .owned import READ, SHELL, Forged, assert_tiled, assert_true, first, head, opened, said, written
from .talk import NASTY, Driver, Played, dialect, for_every, in_every, often, plays, texts, tool
from .templates import CHATML, CHATML_TOOLS

EVERY = EXTENDING + REWRITING
FAMILIES = {family.name: family for family in EVERY}
every_family = pytest.mark.parametrize("family", EVERY, ids=repr)


@pytest.mark.slow
@in_every(EVERY)
@often(5)
@given(played=plays(EVERY))
def test_every_byte_has_one_owner_who_wrote_it(played: Played) -> None:
    driver = Driver.of(played)
    assert_true([delta for delta, _ in driver.turns], driver.conversation)


@pytest.mark.slow
@for_every(EVERY, system=NASTY, description=NASTY, note=NASTY, text=NASTY, back=[NASTY, "", NASTY])
@given(
    family=st.sampled_from(EVERY),
    system=texts,
    description=texts,
    note=texts,
    text=texts,
    back=st.lists(texts, min_size=1, max_size=3),
)
def test_every_kind_of_text_has_its_owner(
    family: Family, system: str, description: str, note: str, text: str, back: list[str]
) -> None:
    """Skills, late tools, notes and results of several calls among them."""
    log = Conversation(head(READ, tool("shell", description), system=system, skills=["tidy: cleans up"]))
    late = ToolsAdded((json.dumps(tool("late", description)).encode(),))
    results = ToolResults(tuple(ToolResult(f"c0000100{n}", "shell", one.encode()) for n, one in enumerate(back)))
    render, deltas = Renderer(dialect(family)), []
    for event in (Note(note.encode()), late, User(text.encode()), Reply(b"x", "stop", "auto", 0), late, results):
        delta = Delta(b"x") if isinstance(event, Reply) else render.extend(log.tip, event)
        deltas += [] if isinstance(event, Reply) else [delta]
        log.append(event, delta.data)
    assert_true(deltas, log)
    assert {name for delta in deltas for name, _ in said(delta)} >= _names(log)


def _names(log: Conversation) -> set[str]:
    """Return the names of all that must be found: all but what a template may look at."""
    is_type = re.compile(r"\.(type|required\[\d\])$")
    return {name for name, found in written(log).items() if any(found) and not is_type.search(name)}


@every_family
def test_nearly_all_that_is_authored_has_a_span_of_its_own(family: Family) -> None:
    """Contents, descriptions and names; no family here looks at these."""
    render = Renderer(dialect(family))
    delta = render.extend(Conversation(head(READ, SHELL, skills=["tidy: cleans up"])).tip, User(b"Hi"))
    assert delta.share_of_authored >= 0.95


def test_the_check_of_spans_can_fail() -> None:
    """A span under another name, or moved by one byte, is seen."""
    delta, log = opened(CHATML, head())
    assert_true([delta], log)
    for name, start in (("head/system", 0), ("event 1 text", 1)):
        spans = (Span(0, start, "template", Resolution.SCAFFOLD), Span(start, len(delta.data), name, Resolution.EXACT))
        with pytest.raises(AssertionError):
            assert_true([Forged(delta.data, spans[start == 0 :])], log)
    with pytest.raises(AssertionError):
        assert_tiled(delta.spans[1:], len(delta.data))


def test_a_schema_is_told_apart_to_the_leaf() -> None:
    names = [name for name, _ in said(first(CHATML_TOOLS, head(READ), "Hi")) if name.startswith("head/tool")]
    assert [name.removeprefix("head/tool[read_file].") for name in names if not name.endswith(".type")] == [
        *("name", "description", "parameters.path", "parameters.path.description", "parameters.limit"),
        *("parameters.limit.description", "parameters.limit.enum[0]", "parameters.limit.enum[1]"),
        *("parameters.options", "parameters.options.depth", "parameters.options.depth.description"),
        *("parameters.name", "parameters.name.items.description", "parameters.path"),
    ]


def test_a_prompt_reads_as_its_owners() -> None:
    delta = first(CHATML_TOOLS, head(skills=["tidy: cleans up"]), "Hi")
    assert [(span.name, delta.data[span.start : span.end]) for span in delta.spans] == [
        ("template", b"<|im_start|>system\n"),
        ("head/system", b"Be brief."),
        ("harness", b"\n\n# Skills\n\nRead one with load_skill before work it is made for:\n- "),
        ("head/skill[tidy]", b"tidy: cleans up"),
        ("template", b"<|im_end|>\n<|im_start|>user\n"),
        ("event 1 text", b"Hi"),
        ("template", b"<|im_end|>\n"),
        ("template/generation prompt", b"<|im_start|>assistant\n"),
    ]


@pytest.mark.parametrize("name", ["chatml with tools", "mistral", "harmony", "command", "phi"])
def test_results_and_the_notes_they_carry_are_told_apart(name: str) -> None:
    """Inside the text of a JSON string too, where quotes and line ends are written otherwise."""
    log = Conversation(head())
    for event in (User(b"Hi"), Reply(b"x", "stop", "auto", 0), Note(b'a "note"\n!')):
        log.append(event, b"" if isinstance(event, Note) else b"x")
    results = (ToolResult("c00001000", "shell", 'é\n"1"'.encode()), ToolResult("c00001001", "shell", b" two\n"))
    delta = Renderer(dialect(FAMILIES[name])).extend(log.tip, ToolResults(results))
    is_json = name in ("mistral", "harmony", "command")
    note = json.dumps('a "note"\n!')[1:-1] if is_json else 'a "note"\n!'
    result = json.dumps('é\n"1"', ensure_ascii=False)[1:-1] if is_json else 'é\n"1"'
    assert said(delta) == [("event 4 result[0]", result), ("event 4 result[1]", "two"), ("event 3 note", note)]
    assert delta.spans[0].name == ("template/closer" if name != "phi" else "template")


def test_the_same_text_of_two_owners_is_each_ones_own() -> None:
    delta = first(CHATML_TOOLS, head(READ, SHELL, system="Read it."), "Read it.")
    assert [name for name, text in said(delta) if text == "Read it."] == [
        *("head/system", "head/tool[read_file].description", "head/tool[shell].description"),
        *("head/tool[shell].parameters.path.description", "event 1 text"),
    ]


def test_what_else_a_tool_says_is_the_tools_and_no_other_ones() -> None:
    """From its first to its last leaf; what stands between two tools is the template's."""
    delta = first(CHATML_TOOLS, head(READ, SHELL))
    owned = [span for span in delta.spans if span.resolution is Resolution.CONTAINER]
    assert {span.name for span in owned} == {"head/tool[read_file]", "head/tool[shell]"}
    for span in owned:
        name = b"read_file" if "read_file" in span.name else b"shell"
        line = delta.data[: span.end].rpartition(b"\n")[2] + delta.data[span.end :].partition(b"\n")[0]
        assert b'"name": "' + name in line and b"\n" not in delta.data[span.start : span.end]


def test_a_tool_that_is_listed_twice_does_not_own_what_stands_between() -> None:
    delta = first(CHATML_TOOLS.replace("tool | tojson", "(tool | tojson) + ' AND ' + (tool | tojson)"), head(SHELL))
    holding = [span.name for span in delta.spans if b" AND " in delta.data[span.start : span.end]]
    assert holding == ["template"] and delta.share_of_authored == 1.0


PRINTED = {
    "names in capitals": "(tool.function.name | upper) ~ ': ' ~ (tool | tojson)",
    "names by length": "(tool.function.name | length | string) ~ ': ' ~ (tool | tojson)",
    "names rewritten": "(tool | tojson | replace('read_', 'read-')) ~ 'read_file shell'",
    "names looked at": "(('!' if tool.function.name == 'shell' else '?') ~ (tool | tojson))",
    "names refused": "(tool | tojson if tool.function.name | length < 12 else 1 / 0)",
    "properties sorted": "tool.function.name ~ (tool.function.parameters.properties | dictsort | tojson)",
    "properties by type": "tool.function.name ~ (tool.function.parameters.properties.values() | map(attribute='type') | join('|') | replace('string', 'str'))",  # noqa: E501 - it is one expression
    "properties looked at": "(tool | tojson) ~ ('path' in tool.function.parameters.properties)",
    "properties counted": "(tool | tojson) ~ (tool.function.parameters.properties | join('') | length)",
    "digits changed": "(tool | tojson | replace('2', '9'))",
    "a part": "tool.function.name ~ ': ' ~ tool.function.description",
    "reversed": "(tools | reverse | list | tojson if loop.first else '')",
    "sorted": "(tools | sort(attribute='function.description') | list | tojson if loop.first else '')",
    "escaped twice": "(tool | tojson | tojson)",
    "escaped for HTML": "(tool | tojson | e)",
}
"""How templates may print a tool."""
UNSURE = {
    "names in capitals": {"name"},
    "names by length": {"name"},
    "names looked at": {"name"},
    "names refused": {"name"},
    "properties looked at": {"path", "limit", "options", "name", "depth"},
    "properties counted": {"path", "limit", "options", "name", "depth"},
}
"""Names whose marks cannot be trusted there; they are a part of their tool."""


@pytest.mark.parametrize("how", PRINTED)
def test_no_template_makes_a_span_lie(how: str) -> None:
    """Whatever it does to a schema: sort it, drop half of it, count its letters, escape it."""
    delta, log = opened(CHATML_TOOLS.replace("tool | tojson", PRINTED[how]), head(READ, SHELL))
    plain = first(CHATML_TOOLS, log.head)
    assert_true([delta], log)
    if how in UNSURE:
        names = {name for name, _ in said(delta)}
        lost = {name.rpartition(".")[2] for name, _ in said(plain) if name not in names} - {"type"}
        assert lost == UNSURE[how] and delta.share_of_authored < 1 == plain.share_of_authored


@pytest.mark.parametrize("how", ["properties sorted", "sorted", "reversed"])
def test_sorted_names_are_found_where_they_stand(how: str) -> None:
    """Marks sort as what they stand around."""
    delta = first(CHATML_TOOLS.replace("tool | tojson", PRINTED[how]), head(READ, SHELL))
    assert ("head/tool[read_file].parameters.limit", "limit") in said(delta)
    assert delta.share_of_authored == 1.0


@pytest.mark.parametrize("how", ["length | string", "upper", "truncate(5, True)", "replace('Read', 'Write')"])
def test_a_description_that_cannot_be_told_is_refused_as_ever_or_left_to_its_tool(how: str) -> None:
    """A free text in which no special token may be recognised must be found; a changed one only gets no name."""
    source = CHATML_TOOLS.replace("tool | tojson", f"tool.function.name ~ (tool.function.description | {how})")
    if "replace" not in how:
        with pytest.raises(UnsupportedTemplate, match="changes or drops"):
            first(source, head(READ))
        return
    delta, log = opened(source, head(READ))
    assert_true([delta], log)
    assert delta.share_of_authored < 1
    assert [delta.data[start:end] for start, end in delta.authored] == [b"Be brief.", b"Write it.", b"Hi"]


def test_names_and_types_are_not_authored() -> None:
    """A special token in a name is the template's to print; spans do not change that."""
    delta = first(CHATML_TOOLS, head(READ))
    own = [
        (span.start, span.end) for span in delta.spans if re.search(r"\.(description|enum.*|text)$| text$", span.name)
    ]
    assert [one for one in delta.authored if one not in own] == [delta.authored[0]]  # the system text


def test_late_tools_are_told_apart_to_the_leaf() -> None:
    log = Conversation(head())
    log.append(ToolsAdded((json.dumps(SHELL).encode(),)))
    delta = Renderer(dialect(FAMILIES["chatml"])).extend(log.tip, User(b"Hi"))
    assert ("event 1 tool[shell].description", "Read it.") in said(delta)
    assert ("event 2 text", "Hi") in said(delta)
    assert any(span.name == "event 1 tool[shell]" for span in delta.spans)


def test_a_head_inside_the_users_words_keeps_its_owners() -> None:
    """Where a template knows no system message."""
    delta = Renderer(dialect(FAMILIES["gemma"])).extend(
        Conversation(head(SHELL, skills=["tidy: cleans up"])).tip, User(b"Hi")
    )
    names = [name for name, _ in said(delta)]
    assert names[0] == "head/system" and names[-2:] == ["head/skill[tidy]", "event 1 text"]
    assert "head/tool[shell].description" in names


def test_equal_deltas_of_different_events_are_equal() -> None:
    """What is sent does not depend on the number of the event that says it."""
    short, long = Conversation(head()), Conversation(head())
    long.append(Note(b""), b"")
    assert first(CHATML, head()) == first(CHATML, head())
    render = Renderer(dialect(FAMILIES["chatml"]))
    for log in (short, long):
        log.append(User(b"Hi"), b"x")
        log.append(Reply(b"x", "stop", "auto", 0), b"x")
    assert render.extend(short.tip, User(b"So")) == render.extend(long.tip, User(b"So"))
