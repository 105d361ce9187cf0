"""The template environment: the bytes are those of transformers', and nothing but the arguments decides them."""

import datetime
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.errors import RenderError, TemplateFailed, TemplateRunaway
from oasis_harness.templates import Message, Template

from ..render.families import EXTENDING, REWRITING, VARIABLES
from ..render.talk import DATE, NASTY, for_every, often, texts, tool

Render = Callable[..., str]

FEATURES = {
    "block newlines are trimmed": "{% if true %}\nx\n{% endif %}\n y {# a comment #}\nz\n",
    "block indentation is stripped": "a\n   {% if true %}\n\tb\n    {% endif %}\n  {{ 1 }}\n",
    "minus and plus": "a \n {{- 1 -}} \n b \n {%- if true +%}\n c {%+ if true %}d{% endif %}{% endif %}",
    "the last newline goes": "x\n\n",
    "break and continue": (
        "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}"
        "{% if loop.index0 == 2 %}{% break %}{% endif %}{{ m.content }}{% else %}none{% endfor %}"
    ),
    "generation is a scope": (
        "{% set x = 1 %}{% generation %}{{ x }}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}"
        "{% for m in messages %}{% set y = loop.index %}{% generation %}\n{{ y }}{{ m.content }}\n"
        "{% endgeneration %}\n{{ y }}{% endfor %}"
    ),
    "generation and namespace": (
        "{% set n = namespace(a=1) %}{% generation %}{% set n.a = n.a + 1 %}{% endgeneration %}{{ n.a }}"
    ),
    "macros": (
        "{% macro say(m, end='!') %}{{ m.role }}:{{ m.content }}{{ end }}{{ caller() if caller }}{% endmacro %}"
        "{% for m in messages %}{{ say(m) }}{% call say(m, end='') %}{{ loop.index }}{% endcall %}{% endfor %}"
    ),
    "tojson": (
        "{{ tools | tojson }}{{ messages | tojson(indent=2) }}{{ messages | tojson(ensure_ascii=true) }}"
        "{{ messages | tojson(separators=(',', ':'), sort_keys=true) }}{{ {'z': 1, 'a': none, 'b': true} | tojson }}"
    ),
    "string methods": (
        "{% for m in messages %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}{{ m.content.strip() }}"
        "{{ m.content.startswith('<') }}{{ m.content.rstrip() }}{{ m.content.replace('a', 'b') }}"
        "{{ m.content.title() }}{{ m.content[:3] }}{{ m.content[::-1] }}{{ '%s!' % m.content }}{% endfor %}"
    ),
    "filters": (
        "{{ messages | map(attribute='content') | join(',') }}"
        "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
        "{% for m in messages %}{{ m.content | trim | upper | indent(2) | string | default('x') }}"
        "{% for key, value in m | items %}{{ key }}={{ value | e }}{% endfor %}{% endfor %}"
    ),
    "tests": (
        "{% for m in messages %}{{ m is mapping }}{{ m.content is string }}{{ m.tool_calls is defined }}"
        "{{ m.content is iterable }}{{ loop.first and loop.last }}{% endfor %}{{ nothing is undefined }}{{ nothing }}"
    ),
    "python's own words": "{{ messages }}{{ [true, none, 1.5, 'é'] }}{{ tools }}",
    "an error": "{{ messages[0].content }}{% if messages | length > 1 %}{{ raise_exception('too many') }}{% endif %}",
    "an undefined error": "{{ messages[1].content.nothing.more }}",
    "documents": "{{ documents }}{{ documents is defined }}{{ tools }}{{ add_generation_prompt }}",
    "loops": (
        "{% for m in messages recursive %}{{ loop.index }}{{ loop.revindex }}{{ loop.previtem.role }}"
        "{{ loop.nextitem.role }}{{ loop.cycle('a', 'b') }}{{ loop.changed(m.role) }}{% endfor %}{{ range(3) | list }}"
    ),
}

messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system", "tool"]), "content": texts}),
    min_size=1,
    max_size=5,
)
tools = st.lists(texts.map(lambda text: tool("read_file", text)), max_size=2)
CHAT = [{"role": role, "content": NASTY} for role in ("system", "user", "assistant", "user", "assistant", "user")]
"""What most families render; what one refuses, it has to refuse in both."""


@pytest.fixture(scope="session")
def theirs() -> Callable[[str], Render]:
    """From a template to transformers' own render of it, as its apply_chat_template does it, with a frozen date."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    @cache
    def compiled(source: str) -> Render:
        template = _compile_jinja_template(source)

        def render(messages: list[Message], tools: list[Any], generation_prompt: bool) -> str:
            given = {"messages": messages, "tools": tools or None, "add_generation_prompt": generation_prompt}
            now = datetime.datetime(DATE.year, DATE.month, DATE.day).strftime
            return str(template.render(**given, documents=None, strftime_now=now, **VARIABLES))

        return render

    return compiled


def attempt(render: Render, *arguments: Any, **options: Any) -> str | None:
    """Return what is rendered, or None where the template raises."""
    try:
        return render(*arguments, **options)
    except Exception:  # noqa: BLE001 - templates raise anything, and both must
        return None


@pytest.mark.slow
@pytest.mark.parametrize("source", FEATURES.values(), ids=list(FEATURES))
@given(messages=messages, tools=tools, prompt=st.booleans())
def test_every_feature_renders_the_bytes_that_transformers_renders(
    theirs: Callable[[str], Render], source: str, messages: list[Message], tools: list[Any], prompt: bool
) -> None:
    ours = Template(source, variables=VARIABLES, date=DATE).render
    expected = attempt(theirs(source), messages, tools, prompt)
    assert attempt(ours, messages, tools=tools, generation_prompt=prompt) == expected


@pytest.mark.slow
@for_every(EXTENDING + REWRITING, messages=CHAT, tools=[tool("read_file", NASTY)], prompt=True)
@often(3)
@given(family=st.sampled_from(EXTENDING + REWRITING), messages=messages, tools=tools, prompt=st.booleans())
def test_every_family_renders_the_bytes_that_transformers_renders(
    theirs: Callable[[str], Render], family: Any, messages: list[Message], tools: list[Any], prompt: bool
) -> None:
    ours = Template(family.source, variables=VARIABLES, date=DATE).render
    expected = attempt(theirs(family.source), messages, tools, prompt)
    assert attempt(ours, messages, tools=tools, generation_prompt=prompt) == expected


@pytest.mark.slow
def test_the_comparison_with_transformers_can_fail(theirs: Callable[[str], Render]) -> None:
    """Stock jinja2 escapes HTML in `tojson`; a template that does differs from both."""
    chat = [{"role": "user", "content": "<b>"}]
    assert theirs("{{ messages | tojson }}")(chat, [], False) != '[{"role": "user", "content": "\\u003cb\\u003e"}]'
    assert theirs("{{ messages[0].content }}\n")(chat, [], False) != "<b>\n"


def test_tojson_keeps_letters_html_and_the_order_of_keys() -> None:
    template = Template("{{ messages[0] | tojson }}|{{ messages[0] | tojson(indent=1) }}")
    assert template.render([{"z": "é<&>'", "a": "日本"}]) == (
        '{"z": "é<&>\'", "a": "日本"}|{\n "z": "é<&>\'",\n "a": "日本"\n}'
    )


def test_a_template_argument_wins_over_a_special_token_of_the_same_name() -> None:
    template = Template(
        "{{ bos_token }}{{ documents }}", variables={"bos_token": "<s>"}, arguments={"bos_token": "<b>", "documents": 1}
    )
    assert template.render([]) == "<b>1"


def test_no_tools_are_none_and_not_an_empty_list() -> None:
    """Some templates print a tool section for an empty list."""
    assert Template("{{ tools is none }}").render([], tools=[]) == "True"


@given(st.dates(min_value=datetime.date(1000, 1, 1)), st.sampled_from("aAbBcdDeFhHIjmMnpRStTuUVwWxXyYG%"))
def test_a_frozen_date_is_told_as_at_midnight(date: datetime.date, directive: str) -> None:
    expected = datetime.datetime.combine(date, datetime.time()).strftime(f"<%{directive}>")
    assert Template(f"{{{{ strftime_now('<%{directive}>') }}}}", date=date).render([]) == expected


@pytest.mark.parametrize("form, told", [("%-d %b %Y", "9 Mar 2025"), ("%-I:%M", "12:00"), ("%-H", "0"), ("%", "%")])
def test_a_directive_without_padding_has_none(form: str, told: str) -> None:
    assert Template(f"{{{{ strftime_now('{form}') }}}}", date=DATE).render([]) == told


@pytest.mark.parametrize("directive", ["s", "Z", "z", "q"])
def test_a_time_zone_is_never_told(directive: str) -> None:
    with pytest.raises(TemplateFailed, match="tells nothing of a frozen date"):
        Template(f"{{{{ strftime_now('%{directive}') }}}}", date=DATE).render([])


def test_without_a_frozen_date_a_template_that_asks_for_one_fails() -> None:
    with pytest.raises(TemplateFailed, match="no date was frozen"):
        Template("{{ strftime_now('%Y') }}").render([])


@pytest.mark.parametrize("source", ["{{ [1, 2] | random }}", "{{ lipsum() }}"])
def test_nothing_random_can_be_rendered(source: str) -> None:
    with pytest.raises(TemplateFailed):
        Template(source).render([])


@pytest.mark.parametrize(
    "attack",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__.os }}",
        "{{ strftime_now.__globals__['datetime'] }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ ''.join.__self__.__class__.__base__ }}",
        "{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{{ messages | map(attribute='__class__.__mro__') | list }}",
        "{{ (messages | attr('__class__')).__mro__ }}",
        "{{ range(10 ** 9) | list }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
    ],
)
def test_the_sandbox_holds_and_says_so_in_the_tree(attack: str) -> None:
    chat = [{"role": "user", "content": "hello"}]
    with pytest.raises(RenderError) as caught:
        Template(attack).render(chat)
    assert isinstance(caught.value, TemplateFailed | TemplateRunaway)
    assert caught.value.reason and chat == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    "source, reason",
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ nothing.more }}", "'nothing' is undefined"),
        ("{{ messages | tojson(indent='x', nonsense=1) }}", "nonsense"),
        ("{{ '\\ud800' }}", "surrogates not allowed"),
    ],
)
def test_whatever_a_template_raises_is_told_in_its_own_words(source: str, reason: str) -> None:
    with pytest.raises(TemplateFailed, match="refuses") as caught:
        Template(source).render([{"role": "user"}])
    assert reason in str(caught.value.reason)


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ x | no_such_filter }}", "{% for a in b %}" * 25 + "{% endfor %}" * 25]
)
def test_a_source_that_does_not_compile_fails_at_once(source: str) -> None:
    with pytest.raises(TemplateFailed, match="does not compile"):
        Template(source)


def test_the_digest_names_the_source_and_its_special_tokens() -> None:
    digests = {
        Template(source, variables={"bos_token": token}).digest for source in ("a", "b") for token in ("<s>", "<t>")
    }
    assert len(digests) == 4
    assert Template("a", date=DATE).digest == Template("a").digest
