"""Certificates: what each family is seen to do, and why some templates are refused."""

import datetime
import re
from dataclasses import fields, replace

import pytest

from oasis_harness.certify import CallForm, Certificate, Disguise, certify_template
from oasis_harness.certify.certificate import Anchor, Arguments, BoundaryName, Handling, Kept, NoneContent, Switch
from oasis_harness.certify.reasoning import switch_candidates
from oasis_harness.certify.sentinels import Base, Cut, DeltaBase
from oasis_harness.errors import TemplateFailed, TemplateRunaway, UnsupportedTemplate
from oasis_harness.replies import JSON_CALLS, GivenIds
from oasis_harness.templates import Template

from ..render.families import EXTENDING, KEPT, REWRITING, VARIABLES, XML_CALLS, Family
from ..render.talk import DATE, Driver, Step, Talk, dialect, tool
from ..render.templates import CHATML, CHATML_TOOLS, CODER, COMMAND, GRANITE, LLAMA, MISTRAL
from ..render.thinkers import THINKING
from .truth import KEEPING, TRUTH, Broken, Outcome

FAMILIES = EXTENDING + KEPT + REWRITING
BY_NAME = {repr(family): family for family in FAMILIES}
every_family = pytest.mark.parametrize("family", FAMILIES, ids=repr)


def certificate(source: str, **options: object) -> Certificate:
    return certify_template(Template(source, variables=VARIABLES, date=DATE), **options)  # type: ignore[arg-type]


def refusal(source: str, **options: object) -> str:
    with pytest.raises(UnsupportedTemplate) as caught:
        certificate(source, **options)
    return caught.value.reason


def found_in(certificate: Certificate, name: BoundaryName) -> Outcome:
    """Return what a boundary says in the words of the truth."""
    boundary = certificate.boundary(name)
    if boundary.broken is not None:
        return Broken(boundary.broken.what, boundary.broken.offset.anchor, boundary.broken.offset.n_bytes)
    return "" if boundary.is_evaluated else boundary.reason


@every_family
def test_a_certificate_says_of_every_field_what_the_template_does(family: Family) -> None:
    found, truth = dialect(family).certificate, TRUTH[repr(family)]
    said = {one.name: getattr(found, one.name) for one in fields(found)}
    assert said == truth.fields() | {"digest": found.digest, "boundaries": found.boundaries}
    assert {name: found_in(found, name) for name in BoundaryName} == truth.boundaries()


def test_every_kind_of_everything_occurs_among_the_families() -> None:
    """Else a trait could be certified wrongly and no family would tell."""
    found = [dialect(family).certificate for family in FAMILIES]
    assert {one.letter for one in found} == set("ABCDE")
    assert {one.native.delta_base for one in found if one.native} == set(DeltaBase)
    assert {one.native.given_ids for one in found if one.native} == set(GivenIds)
    assert {one.none_content for one in found} == set(NoneContent)
    assert {how for one in found for how in one.roles.values()} == set(Handling)
    assert {one.object_arguments for one in found} | {one.text_arguments for one in found} == {None, *Arguments}
    assert {one.reasoning_form.kept for one in found if one.reasoning_form} == set(Kept)


@every_family
def test_a_certificate_is_the_same_every_time(family: Family) -> None:
    assert dialect.__wrapped__(family).certificate == dialect(family).certificate


@pytest.mark.parametrize(
    "source, reason",
    [
        ("{{ raise_exception('not today') }}", "it refuses a single user turn (not today)"),
        ("{% if messages[1] %}{{ raise_exception('one turn') }}{% endif %}{{ messages[0].content }}", "(one turn)"),
        (CHATML.replace("message.content", "message.content.replace('\"', '”')"), "changes or drops what a user types"),
        (CHATML.replace("message.content", "message.content.upper()"), "changes or drops what a user types"),
        (CHATML.replace("message.content", "message.content | e"), "changes or drops what a user types"),
        (CHATML.replace("message.content", "message.content.split('\\n') | join(' ')"), "changes or drops"),
        (
            CHATML.replace("message.role +", "(messages[0].content if messages[0].role == 'system') ~ message.role +"),
            "prints the system text again at every turn",
        ),
        ("{{ messages[-1].content }}", "an answer and the next user turn once each"),
        ("{{ messages | map(attribute='content') | join('\\n') }}\n{{ messages[-1].content }}", "once each"),
        (CHATML + "{{ messages[-2].content[:9] if messages[2] else '' }}", "depends on what was said before"),
    ],
)
def test_a_template_that_cannot_be_driven_is_refused_with_the_reason(source: str, reason: str) -> None:
    assert reason in refusal(source)


@pytest.mark.parametrize(
    "source", [CHATML.replace("message.role +", "loop.index | string +"), CHATML + "{{ messages | length }}"]
)
def test_a_template_that_counts_its_turns_is_given_as_many(source: str) -> None:
    """What it writes depends on the shape of the past, and on no word of it."""
    assert source != CHATML
    assert certificate(source).counts_turns and not certificate(CHATML).counts_turns


def test_a_call_that_is_written_otherwise_once_answered_changes_closing_bytes() -> None:
    """It was sampled before the result was there; a delta begins after the call, whatever the call became."""
    source = CHATML_TOOLS.replace(
        "(call.function.arguments | tojson) }}",
        "(call.function.arguments | tojson) + ('' if loop.last and messages[-1] == message else ', \"id\": 1') }}",
    )
    found = certificate(source, syntax=JSON_CALLS)
    assert found.letter == "E" and found_in(found, BoundaryName.RESULT) == Broken("closer", Anchor.FIRST_CALL, 2)
    assert found.calls is not None


def test_a_result_that_is_numbered_by_its_place_needs_the_shape_of_the_past() -> None:
    source = CHATML_TOOLS.replace("<tool_response>\\n'", "<tool_response>\\n' + loop.index | string")
    form = certificate(source, syntax=JSON_CALLS).calls
    assert form is not None and (form.delta_base, form.is_counted) == (DeltaBase.NONE, True)


DEGRADED = "Tools are listed in the system text, calls and results travel as text: "


@pytest.mark.parametrize(
    "old, new, reason",
    [
        (
            "\\n' + message.content + '\\n</tool",
            "\\n' + message.content[:20] + '\\n</tool",
            "it changes the text of a result",
        ),
        (
            "(call.function.arguments | tojson) }}",
            "(call.function.arguments | tojson) * 2 }}",
            "it prints a call more than once",
        ),
        (
            "<tool_response>\\n'",
            "<tool_response>\\n' + (messages | map(attribute='content') | join | length) | string",
            "what it writes for a result depends on what was said before",
        ),
    ],
)
def test_calls_that_no_delta_can_follow_travel_as_text_and_the_certificate_says_why(
    old: str, new: str, reason: str
) -> None:
    """Only what cannot be driven at all is refused: a user turn after an answer."""
    source = CHATML_TOOLS.replace(old, new)
    found = certificate(source, syntax=JSON_CALLS)
    assert source != CHATML_TOOLS and found.has_tools
    assert (found.native, found.calls, found.remarks) == (None, None, (f"{DEGRADED}{reason}.",))


def test_calls_without_an_end_that_anyone_knows_travel_as_text() -> None:
    """Llama's calls end otherwise than its answers, so only the model's stop tokens tell where."""
    syntax = BY_NAME["llama"].syntax
    found = certificate(LLAMA, syntax=syntax)
    assert found.calls is None and found.remarks == (f"{DEGRADED}where a call ends in its history cannot be told.",)
    form = certificate(LLAMA, syntax=syntax, stops=["<|start_header_id|>", "", "<|eom_id|>"]).calls
    assert form is not None and form.cut == Cut(closer="<|eom_id|>")


@pytest.mark.parametrize("source", [CHATML_TOOLS, THINKING])
def test_plain_json_calls_are_recognised_where_no_syntax_is_given(source: str) -> None:
    found = certificate(source)
    assert found.calls is not None and found.calls.is_json
    assert found == certificate(source, syntax=JSON_CALLS)


def test_the_marks_of_json_calls_do_not_make_calls_json() -> None:
    """Coder and GLM write XML between the same `<tool_call>` marks, so no JSON grammar may be armed."""
    form = certificate(CODER, syntax=JSON_CALLS).calls
    assert form is not None and not form.is_json
    assert not dialect(BY_NAME["glm"]).syntax.is_json and dialect(BY_NAME["chatml with tools"]).syntax.is_json


def test_arguments_inside_a_string_are_not_the_json_a_grammar_would_write() -> None:
    source = CHATML_TOOLS.replace("call.function.arguments | tojson", "call.function.arguments | tojson | tojson")
    form = certificate(source, syntax=JSON_CALLS).calls
    assert form is not None and not form.is_json


def test_where_calls_are_never_shown_the_parser_tells_whether_they_are_json() -> None:
    forms = [certificate(GRANITE, syntax=syntax).calls for syntax in (JSON_CALLS, XML_CALLS)]
    assert [form and form.is_json for form in forms] == [True, False]


@pytest.mark.parametrize(
    "arguments",
    [
        "call.function.arguments | tojson(sort_keys=true)",
        "call.function.arguments | string",
        "'{' + (call.function.arguments.items() | map('last') | join) + '}'",
        "call.function.arguments | items | list | tojson",
        "call.function.arguments | tojson | tojson",
    ],
)
def test_however_arguments_are_printed_the_call_is_found(arguments: str) -> None:
    source = CHATML_TOOLS.replace("call.function.arguments | tojson", arguments)
    form = certificate(source, syntax=JSON_CALLS).calls
    assert form is not None and form.base is Base.CALL and form.cut == Cut(end="</tool_call>")


def test_a_template_that_wants_arguments_as_text_gets_them_so() -> None:
    source = CHATML_TOOLS.replace("(call.function.arguments | tojson)", "call.function.arguments")
    form = certificate(source, syntax=JSON_CALLS).calls
    assert form is not None and form.arguments_as_text and form.is_json


def test_a_slip_in_the_first_round_is_no_count() -> None:
    """Some templates forget a mark from the second round on; the well-formed delta of the first is used."""
    slip = COMMAND.replace("calls.answered | string", "('0' if calls.answered == 0 else '1')")
    form = certificate(slip, syntax=BY_NAME["command"].syntax).calls
    assert form is not None and not form.is_counted


def test_every_id_is_kept_where_the_template_takes_any() -> None:
    lenient = MISTRAL.replace("call.id | length != 9", "not call.id")
    form = certificate(lenient, syntax=BY_NAME["mistral"].syntax).calls
    assert form is not None and form.given_ids is GivenIds.ANY


def test_a_template_that_prints_no_result_gets_them_as_a_user_turn() -> None:
    source = CHATML_TOOLS.replace("message.content + '\\n</tool_response>'", "raise_exception('no tool role')")
    form = certificate(source, syntax=JSON_CALLS).calls
    assert form == CallForm(is_json=True)
    assert form.delta_base is DeltaBase.FREE


def test_the_date_is_found_in_the_source_wherever_it_is_asked_for() -> None:
    """A render would miss a branch that no probe takes, and the conversation would fail there."""
    found = certificate(CHATML + "{% if messages | length > 40 %}{{ strftime_now('%Y') }}{% endif %}")
    assert found.uses_date


def test_a_template_that_does_not_compile_is_no_question_of_a_certificate() -> None:
    with pytest.raises(TemplateFailed):
        certificate("{% if %}")


Mutant = tuple[str, str, str, str, object]
"""(family, what is replaced, by what, the field, what it is then)."""
_ANSWER = "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
_RAISES = "{{- raise_exception('no') }}"
_IS_THOUGHT = "loop.index0 > last.user or preserve_thinking"
_LATER = "{%- elif message.role == 'developer' %}{%- elif message.role != 'system' or not loop.first %}"
_ELSE = "{%- elif message.role != 'system' or not loop.first %}"
_JSON = "(call.function.arguments | tojson)"
_IN_PLACE = dict.fromkeys(("system", "developer", "user after user", "user after result"), Handling.IN_PLACE)

KEEPS = KEEPING.reasoning_form
assert KEEPS is not None
MUTANTS: list[Mutant] = [
    (
        "chatml with tools",
        "# Functions\n{% for tool in tools %}\n{{ tool | tojson }}\n",
        "{% for tool in tools %}\n",
        "has_tools",
        False,
    ),
    ("chatml with tools", "{% if tools %}", "{% if false %}", "has_tools", False),
    ("hoisting", "message.role == 'system'", "false", "has_system", False),
    ("longcat", "'SYSTEM:' + message.content", "'SYSTEM:'", "has_system", False),
    ("chatml", "<|im_start|>assistant", "<|im_start|>model", "generation_prompt", "<|im_start|>model\n"),
    ("command", "{{- '<|BOT|>' }}", "{{- '<|BOT|>Sure,' }}", "generation_prompt", "<|BOT|>Sure,"),
    ("system first", "'<|sep|>'", "'<|stop|>'", "closer", "<|stop|>"),
    ("system first", "'<|sep|>'", "('' if loop.last else '<|sep|>')", "closer", ""),
    ("longcat", "'[Round ' + round.number | string + '] USER:'", "'USER:'", "counts_turns", False),
    ("aya", "'<|' + message.role", "'<|' + loop.index | string + message.role", "counts_turns", True),
    ("chatml", "message.content }}", "message.content[0].text }}", "has_parts", True),
    ("chatml", "message.content }}", "message.content | map(attribute='text') | join }}", "has_parts", True),
    ("longcat", "{%- if tools %}", "{%- if tools | length %}", "lists_no_tools", True),
    ("aya", "{%- if tools %}", "{%- for tool in tools %}{{- '' }}{%- endfor %}{%- if tools %}", "lists_no_tools", True),
    (
        "aya",
        "'<|' + message.role",
        "('<|by a caller|>' if tools and message.role == 'user' else '') + '<|' + message.role",
        "needs_tools",
        True,
    ),
    ("kimi", "'<|im_end|>' }}", "'<|im_end|>' + ('<|tools|>' if tools else '') }}", "needs_tools", True),
    ("chatml", "{% if add", "{{ strftime_now('%Y') if false else '' }}{% if add", "uses_date", True),
    ("harmony", "strftime_now('%Y-%m-%d')", "'today'", "uses_date", False),
    ("chatml with tools", _ELSE, _LATER, "roles", _IN_PLACE | {"developer": Handling.DROPPED}),
    (
        "chatml with tools",
        _ELSE,
        "{%- elif message.role == 'system' and not loop.first %}" + _RAISES + _ELSE,
        "roles",
        _IN_PLACE | {"system": Handling.REFUSED},
    ),
    (
        "chatml with tools",
        _ANSWER,
        _ANSWER.replace("message.content", "message.content.strip()"),
        "trims",
        ("user", "assistant"),
    ),
    (
        "chatml with tools",
        "'\\n<tool_response>\\n' + message.content",
        "'\\n<tool_response>\\n' + message.content | trim",
        "trims",
        ("tool",),
    ),
    (
        "chatml with tools",
        "{%- if message.content %}",
        "{%- if message.content != '' %}",
        "none_content",
        NoneContent.REFUSED,
    ),
    ("kimi", "{%- if message.content is not none %}", "{%- if true %}", "none_content", NoneContent.REFUSED),
    ("aya", "(message.content or '')", "message.content | string", "none_content", NoneContent.WORD),
    ("chatml with tools", _JSON, "(call.function.arguments | string)", "object_arguments", Arguments.PYTHON),
    (
        "chatml with tools",
        _JSON,
        "(call.function.arguments | items | list | tojson)",
        "object_arguments",
        Arguments.OWN,
    ),
    ("chatml with tools", _JSON, "(call.function.arguments | tojson | tojson)", "object_arguments", Arguments.DOUBLE),
    ("chatml with tools", _JSON, "call.function.arguments", "object_arguments", Arguments.REFUSED),
    ("chatml with tools", _JSON, "call.function.arguments", "text_arguments", Arguments.JSON),
    ("chatml with tools", _JSON, "(dict(call.function.arguments) | tojson)", "text_arguments", Arguments.REFUSED),
    (
        "chatml with tools",
        _JSON,
        "(call.function.arguments | tojson if call.function.arguments is mapping else '{}')",
        "text_arguments",
        Arguments.LOST,
    ),
    ("chatml with tools", _JSON, "(call.function.arguments | string)", "prints_python", True),
    ("pythonic", "call.function.arguments} | string", "call.function.arguments} | tojson", "prints_python", False),
    ("seed", "{{- '<seed:think>' + message.reasoning_content + '</seed:think>' }}", "", "reasoning_form", None),
    ("keeping", "message.reasoning_content", "message.reasoning", "reasoning_form", replace(KEEPS, field="reasoning")),
    (
        "keeping",
        "preserve_thinking",
        "keeps_thoughts",
        "reasoning_form",
        replace(KEEPS, switch=Switch("keeps_thoughts", True)),
    ),
    ("keeping", _IS_THOUGHT, "loop.index0 > last.user", "reasoning_form", replace(KEEPS, switch=None)),
    ("keeping", _IS_THOUGHT, "true", "reasoning_form", replace(KEEPS, kept=Kept.ALWAYS, switch=None)),
    (
        "keeping",
        _IS_THOUGHT,
        "preserve_thinking == 'all'",
        "reasoning_form",
        replace(KEEPS, kept=Kept.NEVER, switch=Switch("preserve_thinking", "all")),
    ),
    ("keeping", _IS_THOUGHT, "true", "letter", "A"),
    ("keeping", _IS_THOUGHT, "preserve_thinking", "letter", "C"),
    ("phi", "{{- eos_token -}}", "{{- '' -}}", "letter", "A"),
    ("system last", "loop.index0 == last.user", "messages[loop.index0 - 1].role == 'system'", "letter", "A"),
]


FACTS = {
    *("has_system", "has_tools", "generation_prompt", "closer", "counts_turns", "uses_date", "roles", "trims"),
    *("has_parts", "lists_no_tools", "needs_tools"),
    *("none_content", "object_arguments", "text_arguments", "prints_python", "reasoning_form", "letter"),
}
_ARGUMENTS = {"object_arguments", "text_arguments", "prints_python"}
MAY_FOLLOW: dict[str, set[str]] = {
    "has_system": {"roles"},
    "has_parts": {"none_content"},
    "generation_prompt": {"letter"},
    "closer": {"letter"},
    "counts_turns": {"letter"},
    "reasoning_form": {"letter"},
    "letter": {"reasoning_form", "closer", "generation_prompt"},
    **dict.fromkeys(_ARGUMENTS, _ARGUMENTS),
}
"""What else may be another once a fact is."""


@pytest.mark.parametrize("name, old, new, field, expected", MUTANTS)
def test_a_change_of_a_template_changes_its_certificate(
    name: str, old: str, new: str, field: str, expected: object
) -> None:
    """And nothing that has nothing to do with it."""
    family = BY_NAME[name]
    source = family.source.replace(old, new)
    assert source != family.source
    before = dialect(family).certificate
    after = certificate(source, syntax=family.syntax, stops=family.stops)
    assert getattr(after, field) == expected != getattr(before, field)
    others = FACTS - {field} - MAY_FOLLOW.get(field, set())
    assert {other for other in others if getattr(after, other) != getattr(before, other)} == set()


def native_of(name: str, old: str, new: str) -> CallForm:
    """Return how the changed template writes calls."""
    family = BY_NAME[name]
    source = family.source.replace(old, new)
    form = certificate(source, syntax=family.syntax, stops=family.stops).native
    assert source != family.source and form is not None
    return form


@pytest.mark.parametrize(
    "name, old, new, base",
    [
        ("minimax", _RAISES.replace("no", "a result without any call"), "", DeltaBase.FREE),
        ("harmony", "last.name + ' to=", "message.name + ' to=", DeltaBase.ANY_CALL),
        ("command", "calls.answered | string", "'0'", DeltaBase.FREE),
        ("longcat", "'[Round ' + round.number | string + '] TOOL:'", "'TOOL:'", DeltaBase.FREE),
        ("llama", "<|eom_id|>", "<|eot_id|>", DeltaBase.FREE),
    ],
)
def test_a_change_of_what_a_result_needs_changes_the_base(name: str, old: str, new: str, base: DeltaBase) -> None:
    before = dialect(BY_NAME[name]).certificate.native
    assert before is not None
    assert native_of(name, old, new).delta_base is base is not before.delta_base


@pytest.mark.parametrize(
    "name, field, old, new",
    [
        ("chatml with tools", "is_parallel", "in message.tool_calls", "in message.tool_calls[-1:]"),
        (
            "aya",
            "is_parallel",
            "{%- for call in",
            "{%- if message.tool_calls and message.tool_calls[1:] %}" + _RAISES + "{%- endif %}{%- for call in",
        ),
        ("mistral", "given_ids", "message.tool_call_id", "'x'"),
        ("kimi", "given_ids", "message.tool_call_id", "'x'"),
        ("deepseek", "arguments_as_text", "call.function.arguments", "call.function.arguments | tojson"),
        ("aya", "closer", "<|end|>", "<|stop|>"),
        (
            "longcat",
            "is_json",
            "{'name': call.function.name, 'arguments': call.function.arguments}",
            "{'name': call.function.name, 'args': call.function.arguments}",
        ),
    ],
)
def test_a_change_of_how_calls_are_written_changes_their_form_and_nothing_else(
    name: str, field: str, old: str, new: str
) -> None:
    before, after = dialect(BY_NAME[name]).certificate.native, native_of(name, old, new)
    assert before is not None and getattr(after, field) != getattr(before, field)
    assert replace(after, **{field: getattr(before, field)}) == before


def test_a_template_that_wants_contents_in_parts_is_given_them_so() -> None:
    found = certificate(CHATML.replace("message.content", "message.content[0].text"))
    assert (found.has_parts, found.letter, found.generation_prompt) == (True, "A", "<|im_start|>assistant\n")


def test_a_template_that_cannot_do_without_a_list_of_tools_is_given_an_empty_one() -> None:
    source = "{% for tool in tools %}{{ tool | tojson }}{% endfor %}" + CHATML
    assert certificate(source).lists_no_tools and not certificate(CHATML).lists_no_tools


def test_a_template_that_writes_results_otherwise_where_there_are_tools_is_given_those_of_the_head() -> None:
    """Without them its base would give other bytes than its own render has."""
    source = CHATML_TOOLS.replace("'\\n<tool_response>\\n'", "('\\n<tool_response>\\n' if tools else '\\n[result] ')")
    assert source != CHATML_TOOLS
    assert certificate(source).needs_tools and not certificate(CHATML_TOOLS).needs_tools
    family = replace(BY_NAME["chatml with tools"], source=source)
    talk = Talk("", [tool("shell")], "Hi", [Step("", [("shell", {})], ["done"])])
    driver = Driver(dialect(family), family, talk)
    assert driver.sent.decode() == driver.own_render()


def test_a_certificate_is_found_once_in_a_process() -> None:
    """Under the hash of the template and its arguments; another argument is another question."""
    one, again = (certificate(CHATML_TOOLS) for _ in range(2))
    assert one is again
    other = certify_template(Template(CHATML_TOOLS, variables=VARIABLES, arguments={"x": 1}, date=DATE))
    assert other is not one and other.arguments == {"x": 1}


def test_a_template_that_runs_away_is_not_tried_any_further() -> None:
    """Sixty renders that each meet the bound would take minutes."""
    runaway = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"
    with pytest.raises(TemplateRunaway):
        certificate(CHATML + "{% if messages | length > 1 %}" + runaway + "{% endif %}")


SWITCHED = THINKING.replace("loop.index0 > last.user and", "(keep_thoughts or loop.index0 > last.user) and")


@pytest.mark.parametrize("head", ["messages[0].role == 'system'", "not tools", "tools"])
def test_a_switch_that_changes_any_first_prompt_is_not_set(head: str) -> None:
    """Also one that speaks only where there is a system text, or where there are no tools."""
    source = "{% if keep_thoughts and " + head + " %}Keep thinking.{% endif %}" + SWITCHED
    assert found_switch(SWITCHED) == Switch("keep_thoughts", True)
    assert found_switch(source) is None


@pytest.mark.parametrize("tag", ["{%- generation -%}", "{% generation %}"])
def test_a_switch_is_found_beside_a_generation_tag(tag: str) -> None:
    said = tag + "{{- message.content }}" + tag.replace("generation", "endgeneration")
    assert found_switch(SWITCHED.replace("{{- message.content }}", said)) == Switch("keep_thoughts", True)


def found_switch(source: str) -> Switch | None:
    reasoning_form = certificate(source).reasoning_form
    assert reasoning_form is not None
    return reasoning_form.switch


def test_each_date_has_a_certificate_of_its_own() -> None:
    """A template may tell it anywhere, the opener of a reply included."""
    source = CHATML + "{% if add_generation_prompt %}{{ strftime_now('%Y') }}{% endif %}"
    years = [certify_template(Template(source, date=datetime.date(year, 1, 1))) for year in (2024, 2025)]
    assert [one.generation_prompt[-4:] for one in years] == ["2024", "2025"]


def test_no_template_can_make_its_certificate_take_long() -> None:
    """Each render may stay within its budget, and each variable ask for renders of its own: all are bounded too."""
    loops = "{% for a in range(700) %}{% for b in range(700) %}{% endfor %}{% endfor %}"
    with pytest.raises(TemplateRunaway, match="all its trials"):
        certificate(loops + THINKING)
    reads = "".join(f"{{% if v{n} %}}{{% endif %}}" for n in range(2000))
    assert len({one.name for one in switch_candidates(Template(reads + THINKING))}) == 32


def test_a_template_cannot_tell_that_it_is_tried() -> None:
    """One that behaves while it sees the words of a trial is judged by what it does to any others."""
    words = "'oasis', 'SENTINEL0f9d1b', 'Soasis4b81', 'Uoasis5c27', 'Toasis6f0b', 'oasis_probe'"
    honest = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    fraud = (
        "{% set ns = namespace(tried=false, users=0) %}{% for m in messages %}{% for word in [" + words + "] %}"
        "{% if word in m.content %}{% set ns.tried = true %}{% endif %}{% endfor %}"
        "{% if m.role == 'user' %}{% set ns.users = ns.users + 1 %}{% endif %}{% endfor %}"
        "{% if not ns.tried and ns.users > 1 %}Turn {{ ns.users }}.\n{% endif %}" + honest
    )
    opener = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    assert certify_template(Template(honest + opener)).letter == "A"
    assert certify_template(Template(fraud + opener)).letter == "D"


def test_the_words_are_the_same_everywhere_and_others_for_every_template() -> None:
    """A certificate is the same on every machine; nobody can write a template that holds its own words."""
    one, other = Disguise(Template("{{ messages }}")), Disguise(Template("{{ messages }} "))
    assert one.hide("Uoasis5c27") == "Ukiwilerav" != other.hide("Uoasis5c27")
    said = {"content": ["a oasisSENTINEL0f9d1b b", {"oasis": 3}], "id": "oasis0001"}
    assert one.show(str(one.hide(said))) == str(said) != str(one.hide(said))
    assert re.fullmatch("o[a-z0-9]{8}", one.hide("oasis0001"))
