"""Certificates: what each family is seen to do, and why some templates are refused."""

from dataclasses import replace

import pytest

from oasis_harness.errors import TemplateFailed, UnsupportedTemplate
from oasis_harness.render import JSON_CALLS, CallForm, Certificate, GivenIds, Template, certify
from oasis_harness.render.base import Base, Cut

from .families import EXTENDING, REWRITING, VARIABLES, XML_CALLS
from .talk import DATE, dialect
from .templates import CHATML, CHATML_TOOLS, CODER, COMMAND, GLM, GRANITE, HARMONY, LLAMA, MISTRAL, THINKING

FAMILIES = {family.name: family for family in EXTENDING + REWRITING}
CALL = CallForm(Base.CALL, has_role=True)

EXPECTED: dict[str, tuple[str, str, CallForm | None]] = {
    "chatml": ("<|im_start|>assistant\n", "<|im_end|>\n", None),
    "chatml with tools": (
        "<|im_start|>assistant\n",
        "<|im_end|>\n",
        replace(CALL, cut=Cut(end="</tool_call>"), is_json=True),
    ),
    "coder": ("<|im_start|>assistant\n", "<|im_end|>\n", replace(CALL, cut=Cut(end="</tool_call>"))),
    "llama": (
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|eot_id|>",
        replace(CALL, cut=Cut(closer="<|eom_id|>"), is_parallel=False),
    ),
    "mistral": ("", "</s>", replace(CALL, cut=Cut(closer="</s>"), given_ids=GivenIds.NINE)),
    "mistral, tools last": ("", "</s>", replace(CALL, cut=Cut(closer="</s>"), given_ids=GivenIds.NINE)),
    "gemma": ("<start_of_turn>model\n", "<end_of_turn>\n", None),
    "glm": ("<|assistant|>\n", "", replace(CALL, cut=Cut(end="</tool_call>"))),
    "harmony": ("<|start|>assistant", "", replace(CALL, cut=Cut(closer="<|call|>"), is_parallel=False)),
    "thinking": (
        "<|im_start|>assistant\n",
        "<|im_end|>\n",
        replace(CALL, cut=Cut(end="</tool_call>"), is_json=True),
    ),
    "phi": ("<|end|>\n<|assistant|>\n", "", None),
    "system first": ("<|assistant|>", "<|sep|>", None),
    "granite": (
        "<|start_of_role|>assistant<|end_of_role|>",
        "<|end_of_text|>\n",
        CallForm(has_role=True, is_json=True),
    ),
    "command": ("<|BOT|>", "<|END|>", replace(CALL, cut=Cut(end="<|END_ACTION|>"), is_counted=True)),
}


def certificate(source: str, **options: object) -> Certificate:
    return certify(Template(source, variables=VARIABLES, date=DATE), **options)  # type: ignore[arg-type]


def refusal(source: str, **options: object) -> str:
    with pytest.raises(UnsupportedTemplate) as caught:
        certificate(source, **options)
    return str(caught.value.values["reason"])


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_has_the_certificate_of_its_style(name: str) -> None:
    family = FAMILIES[name]
    found = dialect(family).certificate
    assert (found.generation_prompt, found.closer, found.calls) == EXPECTED[name]
    assert found.has_system is family.has_system
    assert found.uses_date is (family.source in (LLAMA, HARMONY))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_certificate_is_the_same_every_time(name: str) -> None:
    family = FAMILIES[name]
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
        ("{{ messages[-1].content }}", "an answer and the next user turn once each"),
        ("{{ messages | map(attribute='content') | join('\\n') }}\n{{ messages[-1].content }}", "once each"),
        (CHATML.replace("message.role +", "loop.index | string +"), "depends on the turns before"),
        (CHATML + "{{ messages | length }}", "depends on the turns before"),
    ],
)
def test_a_template_that_cannot_be_driven_is_refused_with_the_reason(source: str, reason: str) -> None:
    assert reason in refusal(source)


def test_a_call_that_is_written_otherwise_once_answered_is_refused() -> None:
    """It was sampled before the result was there."""
    source = CHATML_TOOLS.replace(
        "(call.function.arguments | tojson) }}",
        "(call.function.arguments | tojson) + ('' if loop.last and messages[-1] == message else ', \"id\": 1') }}",
    )
    assert refusal(source, syntax=JSON_CALLS) == "what it writes for a call depends on whether a result follows"


def test_a_result_that_is_numbered_by_its_place_is_refused() -> None:
    """Counting the calls is one thing; counting all messages would make every delta depend on the whole history."""
    source = CHATML_TOOLS.replace("<tool_response>\\n'", "<tool_response>\\n' + loop.index | string")
    assert refusal(source, syntax=JSON_CALLS) == "what it writes for a result depends on the turns before"


def test_a_call_without_an_end_that_anyone_knows_is_refused() -> None:
    """Llama's calls end otherwise than its answers, so only the model's stop tokens tell where."""
    syntax = FAMILIES["llama"].syntax
    assert refusal(LLAMA, syntax=syntax) == "where a call ends in its history cannot be told"
    form = certificate(LLAMA, syntax=syntax, stops=["<|start_header_id|>", "", "<|eom_id|>"]).calls
    assert form is not None and form.cut == Cut(closer="<|eom_id|>")


def test_a_result_that_is_rewritten_is_refused() -> None:
    source = CHATML_TOOLS.replace("\\n' + message.content + '\\n</tool", "\\n' + message.content[:20] + '\\n</tool")
    assert source != CHATML_TOOLS
    assert refusal(source, syntax=JSON_CALLS) == "it changes the text of a result"


def test_a_call_printed_twice_is_refused() -> None:
    source = CHATML_TOOLS.replace("(call.function.arguments | tojson) }}", "(call.function.arguments | tojson) * 2 }}")
    assert refusal(source, syntax=JSON_CALLS) == "it prints a call more than once"


@pytest.mark.parametrize("source", [LLAMA, GLM, CODER, MISTRAL, HARMONY, COMMAND])
def test_calls_in_a_syntax_nobody_can_read_are_not_used(source: str) -> None:
    """The template's own tools would be called in a way the harness does not see; as text they are."""
    found = certificate(source)
    assert found.has_tools and found.calls is None


@pytest.mark.parametrize("source", [CHATML_TOOLS, THINKING])
def test_plain_json_calls_are_recognised_where_no_syntax_is_given(source: str) -> None:
    found = certificate(source)
    assert found.calls is not None and found.calls.is_json
    assert found == certificate(source, syntax=JSON_CALLS)


def test_the_marks_of_json_calls_do_not_make_calls_json() -> None:
    """Coder and GLM write XML between the same `<tool_call>` marks, so no JSON grammar may be armed."""
    form = certificate(CODER, syntax=JSON_CALLS).calls
    assert form is not None and not form.is_json
    assert not dialect(FAMILIES["glm"]).is_json and dialect(FAMILIES["chatml with tools"]).is_json


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
    form = certificate(slip, syntax=FAMILIES["command"].syntax).calls
    assert form is not None and not form.is_counted


def test_every_id_is_kept_where_the_template_takes_any() -> None:
    lenient = MISTRAL.replace("call.id | length != 9", "not call.id")
    form = certificate(lenient, syntax=FAMILIES["mistral"].syntax).calls
    assert form is not None and form.given_ids is GivenIds.ANY


def test_a_template_that_prints_no_result_gets_them_as_a_user_turn() -> None:
    source = CHATML_TOOLS.replace("message.content + '\\n</tool_response>'", "raise_exception('no tool role')")
    form = certificate(source, syntax=JSON_CALLS).calls
    assert form == CallForm(is_json=True)


def test_the_date_is_found_in_the_source_wherever_it_is_asked_for() -> None:
    """A render would miss a branch that no probe takes, and the conversation would fail there."""
    found = certificate(CHATML + "{% if messages | length > 40 %}{{ strftime_now('%Y') }}{% endif %}")
    assert found.uses_date


def test_a_template_that_does_not_compile_is_no_question_of_a_certificate() -> None:
    with pytest.raises(TemplateFailed):
        certificate("{% if %}")
