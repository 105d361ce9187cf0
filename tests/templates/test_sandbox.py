"""A chat template comes from the internet: whatever it does, it ends soon, small, and with a clear error."""

import copy
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from oasis_harness.errors import RenderError, TemplateFailed, TemplateRunaway
from oasis_harness.templates import Template, budget, sandbox

from ..render import templates
from ..render.families import EXTENDING, REWRITING, VARIABLES, Family
from ..render.talk import DATE, tool

BIG = "{% set big = 'ab ' * 1000000 %}"
NUMBERS = "{% set numbers = range(90000) | list %}"
DOUBLED = "{% set n = namespace(x=[1, 2]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
TUPLES = "{% set n = namespace(x=(1, 2)) %}{% for i in range(20000) %}{% set n.x = (n.x, 1) %}{% endfor %}"
HUGE = "{% set huge = ('f' * 400000) | int(base=16) %}"
CHAT = [{"role": "user", "content": "hello"}]

TOO_LONG = {
    "nested loops": (
        "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}" + "{% endfor %}" * 3
    ),
    "a loop whose filter refuses all": (
        "{% for a in range(9999) %}{% for b in range(9999)" + " if b < 0 %}{% endfor %}{% endfor %}"
    ),
    "a macro that calls itself twice": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}"
    ),
    "a macro that never returns": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "macros in a ring": "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
    "a caller": (
        "{% macro f(n) %}{% call f(n + 1) %}{{ caller() }}{% endcall %}{% endmacro %}{% call f(1) %}x{% endcall %}"
    ),
    "a recursive loop": "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "a recursive loop over much": (
        "{% for a in range(9999) recursive %}{{ loop(range(9999)) if loop.depth < 3 }}{% endfor %}"
    ),
    "a block that shows itself": "{% block b %}{{ self.b() }}{{ self.b() }}{% endblock %}",
    "a list that grows under its loop": (
        "{% set l = [1] %}{% for a in range(40) %}{% for b in l %}{{ l.append(1) }}{% endfor %}{% endfor %}"
    ),
    "searches for much in much": (
        "{% set a = 'a' * 4000000 %}{% set b = 'ab' + 'a' * 2000000 %}"
        "{% for i in range(99) %}{{ a.rfind(b) }}{% endfor %}"
    ),
    "`in` for much in much": BIG + "{% for i in range(999) %}{% if big[9:] + 'c' in big %}{% endif %}{% endfor %}",
    "strips of many letters": BIG + "{{ big.strip(big) }}",
    "comparisons of long texts": (
        BIG + "{% set more = 'ab ' * 1000000 %}{% for i in range(90000) %}{{ 'x' if big == more }}{% endfor %}"
    ),
    "comparisons of lists": (
        NUMBERS
        + "{% set more = range(90000) | list %}{% for i in range(9000) %}{{ 'x' if numbers == more }}{% endfor %}"
    ),
    "comparisons of lists of lists": DOUBLED
    + DOUBLED.replace("n.", "m.").replace("set n ", "set m ")
    + "{{ n.x == m.x }}",
    "tests of lists of lists": DOUBLED + "{{ n.x is eq(n.x) }}",
    "lookups in lists": NUMBERS + "{% for i in range(9000) %}{{ 'x' if -1 in numbers }}{% endfor %}",
    "an index": NUMBERS + "{% for i in range(9000) %}{{ numbers.index(89999) }}{% endfor %}",
    "loops over a reversal": (
        NUMBERS + "{% for a in numbers | reverse %}{% for b in numbers | reverse %}{% endfor %}{% endfor %}"
    ),
    "`in` for much markup in much": BIG + "{{ 'x' if (big[9:] + 'c') | safe in big | safe }}",
    "`in` for many bytes in many": "{% set b = ('ab' * 40000).encode() %}{{ 'x' if b[9:] + b[:1] in b }}",
    "reversals": NUMBERS + "{% for i in range(90000) %}{{ numbers.reverse() }}{% endfor %}",
    "the front of a list": NUMBERS + "{% for i in range(90000) %}{{ numbers.insert(0, 1) }}{% endfor %}",
    "wrapped words": "{{ ('a' * 400000) | wordwrap(1) }}",
    "tags": "{{ ('<!---->' * 60000) | striptags }}",
    "links": BIG + "{{ big | urlize }}",
    "tags of markup": "{{ (('<!---->' * 60000) | safe).striptags() }}",
    "pretty printing": "{{ ('[' * 400000) | pprint }}",
    "another encoding": "{{ ('ab' * 50000).encode('punycode') }}",
    "sorting by a named function": "{{ [1].sort(reverse=true, key=''.center) }}",
    "sorting by a function": "{% set l = [range(99999)] * 9999 %}{{ l.sort(key=dict.fromkeys) }}",
}

TOO_BIG = {
    "`*`": "{{ 'a' * 1000000000 }}",
    "`*` from the left": "{{ 1000000000 * 'a' }}",
    "`*` of a list": "{{ [1] * 1000000000 }}",
    "`*` in steps": (
        "{% set n = namespace(x='aaaaaaaaaa') %}{% for i in range(9) %}{% set n.x = n.x * 10 %}{% endfor %}"
    ),
    "`*` before any render": "{% if false %}{{ 'a' * 1000000000 }}{% endif %}{{ 'a' * 1000000000 }}",
    "`~`": "{% set n = namespace(x='a') %}{% for i in range(40) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "`+`": "{% set n = namespace(x='a') %}{% for i in range(40) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "`+` of lists": "{% set n = namespace(x=[1]) %}{% for i in range(40) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "`%` width": "{{ '%1000000000d' % 1 }}",
    "`%` width behind zeros": "{{ '%000000000000000001000000000d' % 1 }}",
    "`format` width behind zeros": "{{ '{:000000000000000001000000000}'.format(1) }}",
    "`%` width after a key": "{{ '%(a(b))01000000000d' % {'a(b)': 1} }}",
    "`%` precision": "{{ '%.1000000000f' % 1 }}",
    "`%` starred width": "{{ '%*d' % (1000000000, 1) }}",
    "`%` many times": BIG + "{{ ('%s' * 1000) % ((big,) * 1000) }}",
    "`%` of a key": BIG + "{{ ('%(a)s' * 1000) % {'a': big} }}",
    "the format filter": "{{ '%1000000000d' | format(1) }}",
    "the format filter on a list": "{{ ['%1000000000d'] | format(1) }}",
    "str.format width": "{{ '{:1000000000}'.format(1) }}",
    "str.format computed width": "{{ '{:{}}'.format(1, 1000000000) }}",
    "str.format many times": BIG + "{{ ('{0}' * 1000).format(big) }}",
    "str.format_map": "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
    "ljust": "{{ ''.ljust(1000000000) }}",
    "rjust": "{{ 'a'['rjust'](1000000000) }}",
    "center of markup": "{{ ('' | safe).center(1000000000) }}",
    "join of markup": BIG + "{{ (big | safe).join(big) }}",
    "format of markup": "{{ ('{:1000000000}' | safe).format(1) }}",
    "`*` of markup": "{{ ('a' | e) * 1000000000 }}",
    "bytes": "{{ ''.encode().ljust(1000000000) }}",
    "a posed mapping": BIG + "{{ dict(namespace(keys=big.splitlines)) }}",
    "a posed mapping spread": BIG + "{{ cycler(**namespace(keys=big.splitlines)) }}",
    "center": "{{ ''.center(1000000000, 'b') }}",
    "zfill": "{{ ('a' | attr('zfill'))(1000000000) }}",
    "expandtabs": "{{ '\t'.expandtabs(tabsize=1000000000) }}",
    "translate": BIG + "{{ big.translate({97: big}) }}",
    "replace": BIG + "{{ big.replace('a', big) }}",
    "replace of nothing": BIG + "{{ big.replace('', big) }}",
    "join": BIG + "{{ big.join(big) }}",
    "split": "{{ ('a,' * 10000000).split(',') | length }}",
    "split on spaces": "{{ ('a ' * 10000000).split() | length }}",
    "splitlines": "{{ ('a\n' * 10000000).splitlines() | length }}",
    "to_bytes": "{{ (1).to_bytes(1000000000, 'big') }}",
    "extend by letters": "{% set l = [] %}{{ l.extend('ab' * 8000000) }}",
    "extend by itself": "{% set l = [1] %}{% for i in range(40) %}{{ l.extend(l) }}{% endfor %}",
    "the center filter": "{{ 'a' | center(1000000000) }}",
    "the center filter at compile time": "{% if 'a' | center(1000000000) %}{% endif %}",
    "the indent filter": "{{ 'a\nb' | indent(1000000000) }}",
    "the indent filter by text": BIG + "{{ ('a\n' * 100000) | indent(big) }}",
    "the join filter": BIG + "{{ big | join(big) }}",
    "the replace filter": BIG + "{{ big | replace('a', big) }}",
    "the replace filter by name": BIG + "{{ big | replace(new=big, old='a') }}",
    "the batch filter": "{{ [1] | batch(1000000000, 'x') | list }}",
    "the slice filter": "{{ [1] | slice(1000000000) | list }}",
    "the list filter": "{{ ('ab' * 8000000) | list | length }}",
    "the wordwrap filter": BIG + "{{ ('a ' * 1000) | wordwrap(1, wrapstring=big) }}",
    "the round filter": "{{ 1 | round(-1000000000) }}",
    "the map filter": BIG + "{{ range(90000) | map('center', 1000000) | list }}",
    "the sum filter": "{{ ([[1] * 9000] * 9000) | sum(start=[]) }}",
    "tojson by indent": "{{ [1] | tojson(indent=1000000000) }}",
    "tojson by separators": BIG + "{{ range(9000) | list | tojson(separators=(big, big)) }}",
    "tojson of lists of lists": DOUBLED + "{{ n.x | tojson }}",
    "printed lists of lists": DOUBLED + "{{ n.x }}",
    "printed namespaces": (
        "{% set n = namespace(x=namespace(a=1)) %}{% for i in range(60) %}"
        "{% set n.x = namespace(a=n.x, b=n.x) %}{% endfor %}{{ n.x }}"
    ),
    "added lists of lists": DOUBLED + "{{ 'a' ~ n.x }}",
    "lists of lists as text": DOUBLED + "{{ n.x | string }}",
    "the upper test": DOUBLED + "{{ n.x is upper }}",
    "output": BIG + "{% for i in range(1000) %}{{ big }}{% endfor %}",
    "output of literals": "{% for a in range(9999) %}" + "x" * 9999 + "{% endfor %}",
    "output of literals in a macro": (
        "{% macro f() %}" + "x" * 9999 + "{% endmacro %}{% for a in range(9999) %}{{ f() }}{% endfor %}"
    ),
    "captured output": (
        "{% set n = namespace(x='a') %}{% for i in range(40) %}{% set x %}{{ n.x }}{{ n.x }}{% endset %}"
        "{% set n.x = x %}{% endfor %}"
    ),
    "slices": BIG + "{% set n = namespace(l=[]) %}{% for i in range(9000) %}{{ n.l.append(big[1:]) }}{% endfor %}",
    "spread text": BIG + "{{ cycler(*big) }}",
    "spread names": (
        "{% macro f() %}{{ kwargs }}{% endmacro %}{% set d = dict.fromkeys(range(9000) | map('string') | list, 1) %}"
        "{% for i in range(9000) %}{{ f(**d) }}{% endfor %}"
    ),
    "a list that feeds on itself": "{% set l = [1] %}{% for i in range(40) %}{{ l.extend(l | select) }}{% endfor %}",
    "dict.fromkeys": "{% for i in range(9000) %}{% set d = dict.fromkeys(range(90000)) %}{% endfor %}",
    "strftime_now": "{{ strftime_now('%c' * 4000000) }}",
    "powers": "{{ 10 ** 1000000000 }}",
    "powers of powers": "{{ 9 ** (9 ** 9) }}",
    "products": "{% set n = namespace(x=3) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "quotients": HUGE + "{{ huge // 3 }}",
    "divisions": HUGE + "{{ huge is divisibleby(7) }}",
    "nested tuples as keys": TUPLES + "{{ {n.x: 1} }}",
    "nested tuples looked up": TUPLES + "{{ {}[n.x] }}",
    "doubled tuples looked up": DOUBLED.replace("[n.x, n.x]", "(n.x, n.x)") + "{{ {}[n.x] }}",
    "doubled tuples as keys": DOUBLED.replace("[n.x, n.x]", "(n.x, n.x)").replace("[1, 2]", "1") + "{{ {n.x: 1} }}",
    "tuples as attributes": TUPLES + "{{ [{}] | map(attribute=n.x) | list }}",
    "nested tuples asked for": TUPLES + "{{ {}.get(n.x) }}",
    "nested tuples made unique": TUPLES + "{{ [n.x] | unique | list }}",
    "a wide range": "{{ range(10 ** 9) | list }}",
    "an infinite number": "{{ 10.0 ** 1000 }}",
}

ESCAPES = {
    "classes": "{{ messages.__class__.__mro__ }}",
    "subclasses": "{{ messages.__class__.__base__.__subclasses__() }}",
    "globals of our functions": "{{ raise_exception.__globals__.os }}",
    "globals of jinja2": "{{ cycler.__init__.__globals__.os }}",
    "globals of a macro": "{% macro f() %}{% endmacro %}{{ f._func.__globals__ }}",
    "methods": "{{ ''.join.__self__.__class__.__base__ }}",
    "items": "{{ ''['__class__'].__mro__ }}",
    "format": "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "format_map": "{{ '{a.__class__.__mro__}'.format_map({'a': 1}) }}",
    "the attr filter": "{{ (messages | attr('__class__')).__mro__ }}",
    "the map filter": "{{ messages | map(attribute='__class__.__mro__') | list }}",
    "a generator's frame": "{{ (messages | map('string')).gi_frame.f_globals }}",
    "the template itself": "{{ self._TemplateReference__context.environment }}",
    "the loop's insides": "{% for m in messages %}{{ loop._iterable.x }}{% endfor %}",
    "type's mro": "{{ dict.mro() }}",
    "a namespace's insides": "{{ namespace(a=1)._Namespace__attrs.x }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "from": "{% from 'os' import path %}",
    "extends": "{% extends '/etc/passwd' %}",
    "an included file never reached": "{% if false %}{% include 'a' %}{% endif %}",
    "random": "{{ [1, 2] | random }}",
    "open": "{{ open('/etc/passwd').read() }}",
    "a change by name": "{{ messages['app' ~ 'end'](1) }}",
    "a change by filter": "{{ (messages | attr('clear'))() }}",
    "an attribute of a class": "{% set cycler.x = 1 %}",
    "an attribute of a function": "{% set range.x = 1 %}",
}

CHANGES = [
    "{{ messages.append({'role': 'user', 'content': 'x'}) }}",
    "{{ messages.clear() }}{{ tools.clear() }}",
    "{{ messages[0].update(role='system') }}{{ messages[0] . pop ('content') }}",
    "{{ tools[0].function.parameters.properties.clear() }}",
    "{{ switch.a.append(2) }}{{ switch.update(b=1) }}",
    "{% set range = 1 %}{% set namespace = 2 %}{% set raise_exception = 3 %}",
    "{% macro strftime_now() %}{% endmacro %}{% macro range() %}{% endmacro %}",
    "{% set messages = [] %}{% set tools = [] %}{% set bos_token = 'x' %}",
    "{% set c = cycler(1, 2) %}{{ c.next() }}{% set j = joiner() %}{{ j() }}",
    "{% set n = namespace(a=1) %}{% set n.__class__ = 1 %}{% set n.__init__ = 1 %}",
]


DEEP = "recursion goes deeper than 100 calls"
NUMBER = "numbers of more than 65536 bits"
NESTED = "nested deeper than 200"
OTHER_REASONS = {
    "a macro that never returns": DEEP,
    "macros in a ring": DEEP,
    "a caller": DEEP,
    "a recursive loop": DEEP,
    "a block that shows itself": DEEP,
    "another encoding": "text encoding",
    "sorting by a function": "sorts by",
    "sorting by a named function": "sorts by",
    "extend by itself": "takes more steps",
    "a list that feeds on itself": "takes more steps",
    "the replace filter by name": "takes more steps",
    "tests of lists of lists": "writes more",
    "comparisons of lists of lists": "writes more",
    "powers": NUMBER,
    "powers of powers": NUMBER,
    "products": NUMBER,
    "quotients": NUMBER,
    "divisions": NUMBER,
    "nested tuples as keys": NESTED,
    "nested tuples asked for": NESTED,
    "nested tuples made unique": NESTED,
    "nested tuples looked up": "nested tuple",
    "doubled tuples looked up": "nested tuple",
    "tuples as attributes": "nested tuple",
    "str.format computed width": "a width that it computes",
    "a posed mapping": "as a mapping",
    "a posed mapping spread": "as a mapping",
    "a wide range": "larger than MAX_RANGE",
    "an infinite number": "Numerical result out of range",
}
SLOW = {"printed namespaces", "spread names"}


def cases(attacks: dict[str, str], usual: str) -> list[Any]:
    """Return (attack, reason) for each, under its name."""
    slow = {name: [pytest.mark.slow] if name in SLOW else [] for name in attacks}
    return [
        pytest.param(attack, OTHER_REASONS.get(name, usual), id=name, marks=slow[name])
        for name, attack in attacks.items()
    ]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of the steps: what stops within them stops within all, only sooner."""
    monkeypatch.setattr(budget, "STEPS", budget.STEPS // 20)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("attack, reason", cases(TOO_LONG, "takes more steps") + cases(TOO_BIG, "writes more"))
def test_a_template_that_runs_away_is_stopped(attack: str, reason: str) -> None:
    """For the reason that was meant, and not because something else was noticed first."""
    start = time.process_time()
    with pytest.raises(TemplateRunaway, match="was stopped") as caught:
        Template(attack, date=DATE).render(CHAT)
    assert reason in str(caught.value.reason) and time.process_time() - start < 5


@pytest.mark.parametrize("attack", ESCAPES.values(), ids=list(ESCAPES))
def test_a_template_reaches_nothing_but_its_inputs(attack: str) -> None:
    chat = copy.deepcopy(CHAT)
    with pytest.raises(TemplateFailed) as caught:
        Template(attack, date=DATE).render(chat)
    assert caught.value.reason and chat == CHAT


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce RLIMIT_AS")
def test_no_attack_takes_a_gigabyte() -> None:
    """All of them, one after the other, with the whole budget, in a process that may have no more."""
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from tests.templates.test_sandbox import CHAT, DATE, TOO_BIG, Template, TemplateRunaway\n"
        "for name, attack in TOO_BIG.items():\n"
        "    try: Template(attack, date=DATE).render(CHAT)\n"
        "    except TemplateRunaway as error: assert 'memory' not in str(error), name\n"
        "print('survived')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "survived\n", done.stderr[-2000:]


@pytest.mark.slow
def test_without_the_budget_an_attack_does_run_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """At small scale: 50 MB of text, and a million iterations, which the budget refuses at once."""
    loops = "{% for a in range(1000) %}{% for b in range(1000) %}{{ b + 1 }}{% endfor %}{% endfor %}"
    attacks = ["{{ 'a' * 50000000 }}", loops]
    for attack in attacks:
        with pytest.raises(TemplateRunaway):
            Template(attack).render(CHAT)
    monkeypatch.setattr(budget, "CHARACTERS", 1 << 60)
    monkeypatch.setattr(budget, "STEPS", 1 << 60)
    assert [len(Template(attack).render(CHAT)) for attack in attacks] == [50_000_000, 2_893_000]


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_template_changes_is_gone_after_its_render(change: str) -> None:
    """The template before, the changing one, the template after: same bytes, and the caller's own lists are whole."""
    probe = "{{ messages }}{{ tools }}{{ switch }}{{ range(2) | list }}{{ namespace(a=1).a }}{{ cycler(1).next() }}"
    inputs: dict[str, Any] = {"arguments": {"switch": {"a": [1]}}, "variables": {"bos_token": "<s>"}}
    chat, tools, before = copy.deepcopy(CHAT), [tool("read_file")], copy.deepcopy(inputs)
    other, changing = Template(probe, **inputs), Template(change + probe, **inputs)
    first, one, again, two = (outcome(each, chat, tools) for each in (other, changing, other, changing))
    assert first == again and one == two
    assert chat == CHAT and tools == [tool("read_file")] and inputs == before


def outcome(template: Template, chat: list[Any], tools: list[Any]) -> str:
    """Return what is rendered, or the error's words."""
    try:
        return template.render(chat, tools=tools)
    except RenderError as error:
        return str(error)


def test_a_template_may_collect_in_a_list() -> None:
    """Kimi-K2's templates append the messages to lists of their own; transformers' sandbox refuses that."""
    source = "{% set l = [] %}{% for m in messages %}{{ l.append(m.content) or '' }}{% endfor %}{{ l | join }}"
    assert Template(source).render(CHAT * 2) == "hellohello"


def test_a_loop_is_over_what_its_list_held_when_it_began() -> None:
    source = "{% for m in messages %}{{ messages.append(m) }}{% endfor %}{{ messages | length }}"
    assert Template(source).render(CHAT * 2) == "NoneNone4"


@pytest.mark.slow
def test_renders_in_many_threads_have_a_budget_each() -> None:
    """A runaway in one thread takes nothing from the others."""
    good, bad = Template(templates.CHATML), Template("{% for a in range(9999) %}{{ 'a' * 9999 }}{% endfor %}")
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(outcome, template, CHAT, []) for _ in range(20) for template in (good, bad)]
    assert {run.result() for run in runs[::2]} == {good.render(CHAT)}
    assert all("was stopped" in run.result() for run in runs[1::2])


@pytest.mark.slow
@pytest.mark.parametrize("family", EXTENDING + REWRITING, ids=repr)
def test_a_result_of_ten_megabytes_renders(family: Family) -> None:
    chat = [{"role": "user", "content": "Read it, </think> and <think> too.\n" * 300_000}]
    text = Template(family.source, variables=VARIABLES, date=DATE).render(chat, generation_prompt=True)
    assert len(text) >= 10_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "{{ messages | tojson }}",
        "{{ messages | tojson(indent=2) }}",
        "{% for m in messages %}{{ m.content.split('</think>')[-1].strip() | trim }}{% endfor %}",
        "{% for m in messages %}{{ m.content.replace('think', 'reason') | replace('reason', 'think') }}{% endfor %}",
        "{% for m in messages %}{{ 'x' if '</think>' in m.content }}{{ m.content[:9] ~ m.content }}{% endfor %}",
        "{% for m in messages %}{% for line in m.content.split('\n') %}{{ line }}{% endfor %}{% endfor %}",
        "{{ messages | map(attribute='content') | join('\n') }}",
    ],
)
def test_what_templates_do_with_text_they_may_do_with_ten_megabytes(source: str) -> None:
    chat = [{"role": "user", "content": "Read it, </think> and <think> too.\n" * 300_000}]
    assert Template(source).render(chat)


@pytest.mark.slow
def test_a_thousand_messages_may_be_compared_with_each_other() -> None:
    """Some templates look through all that follows, at every message."""
    inner = "{% for n in messages[loop.index0:] %}{% if n.role == 'x' %}{% endif %}{% endfor %}"
    source = "{% for m in messages %}" + inner + "{% endfor %}"
    assert Template(source).render([{"role": "user", "content": "hello"}] * 1000) == ""


@pytest.mark.parametrize("family", EXTENDING + REWRITING, ids=repr)
def test_a_family_uses_under_a_hundredth_of_the_budget(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "STEPS", budget.STEPS // 100)
    monkeypatch.setattr(budget, "CHARACTERS", budget.CHARACTERS // 100)
    monkeypatch.setattr(budget, "STEPS_PER_MESSAGE", 0)
    monkeypatch.setattr(budget, "STEPS_PER_CHARACTER", 0)
    monkeypatch.setattr(budget, "CHARACTERS_PER_CHARACTER", 0)
    chat = [{"role": "user" if n % 2 == 0 else "assistant", "content": "a line of text\n" * 20} for n in range(9)]
    tools = [tool(f"tool{n}") for n in range(9)] if family.has_calls else []
    assert Template(family.source, variables=VARIABLES, date=DATE).render(chat, tools=tools)


def test_what_the_inputs_add_to_the_budget_is_no_more_than_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same template passes with a long message and is stopped with a short one."""
    monkeypatch.setattr(budget, "CHARACTERS", 1000)
    source = Template("{% for i in range(20) %}{{ messages[0].content ~ ('x' * 100) }}{% endfor %}")
    assert source.render([{"role": "user", "content": "a" * 1000}])
    with pytest.raises(TemplateRunaway, match="writes more"):
        Template("{% for i in range(99) %}{{ 'x' * 1000 }}{% endfor %}").render(CHAT)


def test_the_same_template_is_stopped_at_the_same_step() -> None:
    """Nothing but the inputs decides it: neither how deep the caller's own stack is, nor what ran before."""
    attack = Template("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}")

    def deeper(n: int) -> str:
        return deeper(n - 1) if n else outcome(attack, CHAT, [])

    assert outcome(attack, CHAT, []) == deeper(100) and "deeper than 100 calls" in deeper(100)


def test_an_enormous_source_is_not_even_parsed() -> None:
    with pytest.raises(TemplateFailed, match="longer than"):
        Template("a" * (sandbox.LONGEST_SOURCE + 1))


def test_an_enormous_reason_is_told_in_short() -> None:
    with pytest.raises(TemplateFailed) as caught:
        Template("{{ raise_exception('a' * 100000) }}").render(CHAT)
    assert len(str(caught.value)) < 2000


OBJECTS = [
    "joiner()",
    "cycler(1, 2)",
    "namespace(a=1)",
    "range",
    "dict",
    "raise_exception",
    "'abc'.upper",
    "self",
    "[1, [joiner()]]",
    "{'a': joiner()}",
    "(joiner(), 1)",
]
WAYS = [
    "{{ it }}",
    "{{ 'a' ~ it }}",
    "{{ it|string }}",
    "{{ (it|string)[-4:] }}",
    "{{ it|upper }}",
    "{{ it|e }}",
    "{{ it|pprint }}",
    "{{ '%s'|format(it) }}",
    "{{ '%s' % (it,) }}",
    "{{ '{}'.format(it) }}",
    "{{ [it]|join }}",
    "{{ 'x'|replace('x', it) }}",
    "{{ {it: 1} }}",
    "{{ [it, 1] }}",
    "{{ it|default('x') }}",
]


@pytest.mark.parametrize("value", OBJECTS)
def test_an_object_is_written_in_no_way(value: str) -> None:
    """Its address is another in every process, so the prompt would be; what is cut from it, or counted, as well."""
    for way in WAYS:
        source = re.sub(r"\bit\b", lambda _: f"({value})", way)
        with pytest.raises(TemplateFailed):
            Template(source).render([{"role": "user", "content": "hi"}])


def test_a_generator_is_written_as_the_list_it_stands_for_or_not_at_all() -> None:
    """A filter takes its items; to write it alone would print its address."""
    chat = [{"role": "user", "content": "hi"}]
    assert Template("{{ messages|map(attribute='role')|string }}").render(chat) == "['user']"
    with pytest.raises(TemplateFailed, match="it writes out an object of type generator"):
        Template("{{ messages|map(attribute='role') }}").render(chat)


def test_texts_numbers_and_lists_of_them_are_written() -> None:
    source = "{{ [1, 2.5, none, true, 'a', {'k': [()]}] }}{{ missing }}{{ range(2) }}{{ {'a': 1}.items() }}"
    written = "[1, 2.5, None, True, 'a', {'k': [()]}]range(0, 2)dict_items([('a', 1)])"
    assert Template(source).render([{"role": "user", "content": "hi"}]) == written
