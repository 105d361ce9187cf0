"""Dialects by name, and what a prompt can be taken of."""

import json
from pathlib import Path
from types import MappingProxyType

import pytest

from oasis_harness import ScriptedEngine, Session, Skills, Tools
from oasis_harness.conversation import Compaction, Head
from oasis_harness.errors import BadDialect
from oasis_harness.guard.requests.recorder import RequestRecorder
from oasis_harness.guard.targets.dialects import Dialects
from oasis_harness.guard.targets.subjects import Subject
from oasis_harness.render import Dialect
from tests.tokens.training import gpt2

PLAIN = (
    "{{ bos_token }}{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


@pytest.fixture
def dialects(tmp_path: Path) -> Dialects:
    """Those of a project with one template."""
    folder = tmp_path / "dialects"
    folder.mkdir()
    (folder / "plain.jinja").write_text(PLAIN, encoding="utf-8")
    return Dialects(folder, tmp_path)


def test_a_dialect_is_composed_once(dialects: Dialects) -> None:
    """Certifying a template takes longer than comparing a prompt."""
    assert dialects.find("plain")[0] is dialects.find(["chatml", "plain"])[1]
    assert dialects.find("plain")[0] is not dialects.find("plain", {"switch": True})[0]


def test_files_beside_the_template_are_its_own(dialects: Dialects, tmp_path: Path) -> None:
    """A tokenizer that counts, and the special tokens as a model folder spells them."""
    (plain,) = dialects.find("plain")
    assert plain.tokenizer is None and plain.dialect.template.variables["bos_token"] == "<s>"
    folder = tmp_path / "dialects"
    (folder / "plain.tokenizer.json").write_bytes(gpt2().to_str().encode())
    settings = {"bos_token": {"content": "<begin>"}, "eos_token": "<end>", "model_max_length": 7}
    (folder / "plain.tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (full,) = Dialects(folder, tmp_path).find("plain")
    assert full.tokenizer is not None
    assert full.dialect.template.variables == {"bos_token": "<begin>", "eos_token": "<end>"}


@pytest.mark.parametrize("name", ["plain.tokenizer_config.json", "plain.jinja"])
def test_a_damaged_file_is_named(dialects: Dialects, tmp_path: Path, name: str) -> None:
    """Bytes that are no text, or no JSON."""
    (tmp_path / "dialects" / name).write_bytes(b"\xff")
    with pytest.raises(BadDialect, match=name):
        dialects.find("plain")


def test_two_dialects_of_one_name_are_refused(dialects: Dialects) -> None:
    """They would share a file. So would two composed ones without names."""
    composed = Dialect.compose(PLAIN)
    named: dict[str, Dialect] = {"a/mine": composed, "b/mine": composed}
    for given in (["plain", "dialects/plain.jinja"], [composed, composed], [], named, {}):
        with pytest.raises(BadDialect):
            dialects.find(given)


def test_a_name_that_is_nowhere_is_refused(dialects: Dialects, tmp_path: Path) -> None:
    """Neither a file nor a model; a file of that name that is no template is not read."""
    (tmp_path / "notes").write_text("no template", encoding="utf-8")
    for given in ("notes", "other.jinja", Path("other")):
        with pytest.raises(BadDialect, match="there is no dialect"):
            dialects.find(given)


def test_the_date_is_the_same_every_day(tmp_path: Path) -> None:
    """A template that asks is told one frozen date."""
    (tmp_path / "dated.jinja").write_text(PLAIN + "{{ strftime_now('%Y') if false }}", encoding="utf-8")
    (dated,) = Dialects(tmp_path, tmp_path).find("dated")
    assert str(dated.dialect.template.date) == "2000-01-01"


def test_a_head_is_what_a_session_opens_with(dialects: Dialects, tmp_path: Path) -> None:
    """Tools in prompt order, skills, and the tool that reads them."""
    skill = tmp_path / "skills" / "tidy"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidy up.\n---\nDo it.", encoding="utf-8")
    skills, tools = Skills.load(tmp_path / "skills"), Tools()
    session = Session(ScriptedEngine([]), system="S", tools=tools, skills=skills)
    subject = Subject.of_head("S", tools, skills, {})
    (chatml,) = dialects.find("chatml")
    own, ours = session.conversation.head, subject.spoken(chatml)
    assert isinstance(ours, Head)
    assert (ours.system, ours.tools, ours.skills) == (own.system, own.tools, own.skills)
    assert subject.sources["skill[tidy]"].endswith("SKILL.md:1")


def test_a_compacted_conversation_is_taken_as_it_was_sent_only(dialects: Dialects) -> None:
    """Its summary belongs to the words it replaced; another dialect would have been sent others."""
    session = Session(ScriptedEngine(["hello"]), system="S")
    session.send("hi")
    log = session.conversation
    log.append(Compaction(epoch=log.epoch, old_tip=log.tip.digest, summary=b"s"), b"new", (110, 101, 119))
    chatml, plain = dialects.find(["chatml", "plain"])
    assert Subject.of(session).spoken(chatml) is log
    with pytest.raises(BadDialect, match="compacted"):
        Subject.of(session).spoken(plain)


def test_a_body_that_is_no_json_is_refused_at_once() -> None:
    """Not when the test ends, where nobody knows who sent it."""
    with pytest.raises(TypeError):
        RequestRecorder().append({"messages": [object()]})


def test_a_body_may_hold_other_mappings() -> None:
    """As the check of requests takes them."""
    recorded = RequestRecorder()
    recorded.append({"messages": [MappingProxyType({"role": "user", "content": "é"})]})
    assert [request.body for request in recorded] == ['{"messages":[{"role":"user","content":"é"}]}']
