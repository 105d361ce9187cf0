"""Owners of a whole prompt: what was sent is what is explained, whatever a template would say today."""

import json

import pytest
from hypothesis import given

from oasis_harness.conversation import Compaction, Conversation, Head, Note, Reply, ToolResult, ToolResults, User
from oasis_harness.registry import Skill, Tools
from oasis_harness.render import Renderer, Resolution, provenance_of, sources_of

from .families import EXTENDING, REWRITING
from .owned import assert_tiled
from .talk import EPOCH, Driver, Played, dialect, in_every, plays, tool

EVERY = EXTENDING + REWRITING
FAMILIES = {family.name: family for family in EVERY}
HEAD = Head(EPOCH, b"Be brief.", (json.dumps(tool("read_file")).encode(),), (b"tidy: cleans up",))
RENDER = Renderer(dialect(FAMILIES["chatml with tools"]))
REPLY = Reply(b"Well", "stop", "auto", 0)


def play(*events: object, head: Head = HEAD) -> Conversation:
    """Return a conversation in which `events` were sent as `RENDER` renders them."""
    log = Conversation(head)
    for event in events:
        sent = event.data if isinstance(event, Reply) else RENDER.extend(log.tip, event).data  # type: ignore[arg-type]
        log.append(event, sent)  # type: ignore[arg-type]
    return log


def sent(log: Conversation) -> bytes:
    return b"".join(node.sent for node in log.nodes() if node.epoch == log.tip.epoch)


@pytest.mark.slow
@in_every(EVERY)
@given(played=plays(EVERY))
def test_every_byte_of_a_prompt_is_explained(played: Played) -> None:
    """By the same span as a look at all of them finds, and by none beyond the end."""
    driver = Driver.of(played)
    owners = provenance_of(driver.conversation, driver.renderer)
    assert_tiled(owners.spans, len(driver.sent))
    for offset in range(0, len(driver.sent), 7):
        assert owners.explain(offset) == next(one for one in owners.spans if one.start <= offset < one.end)
    for offset in (-1, len(driver.sent)):
        with pytest.raises(ValueError, match="not in the prompt"):
            owners.explain(offset)


def test_what_each_event_said_is_found_by_its_name() -> None:
    result = ToolResults((ToolResult("c00003000", "read_file", b"one"), ToolResult("c00003001", "read_file", b"two")))
    log = play(User(b"Hi"), REPLY, Note(b"Hurry."), result, REPLY, User(b"So"))
    owners, prompt = provenance_of(log, RENDER), sent(log)
    expected = {
        "head/system": b"Be brief.",
        "head/tool[read_file].description": b"Does it.",
        "head/skill[tidy]": b"tidy: cleans up",
        "event 1 text": b"Hi",
        "event 2 reply": b"Well",
        "event 3 note": b"Hurry.",
        "event 4 result[0]": b"one",
        "event 4 result[1]": b"two",
        "event 6 text": b"So",
    }
    for name, text in expected.items():
        assert [prompt[span.start : span.end] for span in owners.find(name)] == [text]
    assert owners.find("event 9 text") == ()
    assert owners == provenance_of(log.tip, RENDER)


def test_only_the_newest_epoch_is_the_prompt() -> None:
    log = play(User(b"Hi"), REPLY)
    log = Conversation.at(log.tip)
    event = Compaction(EPOCH, log.tip.digest, b"All well.")
    log.append(event, RENDER.extend(log.tip, event).data)
    log.append(REPLY, REPLY.data)
    owners = provenance_of(log, RENDER)
    assert_tiled(owners.spans, len(sent(log)))
    (summary,) = owners.find("event 3 summary")
    assert sent(log)[summary.start : summary.end] == b"All well."
    assert owners.find("head/system") and owners.find("event 4 reply") and not owners.find("event 1 text")


def test_bytes_that_would_be_rendered_otherwise_today_are_the_events() -> None:
    """The log is right: its bytes were sent."""
    log = play(User(b"Hi"), REPLY)
    log.append(User(b"So"), b"<|im_end|>\nSo, as another version wrote it")
    owners = provenance_of(log, RENDER)
    assert_tiled(owners.spans, len(sent(log)))
    assert owners.find("event 1 text")[0].resolution is Resolution.EXACT
    assert owners.spans[-1].name == "event 3" and owners.spans[-1].resolution is Resolution.CONTAINER


def test_a_dialect_that_refuses_the_log_explains_its_events_only() -> None:
    log = play(User(b"Hi"), REPLY, User(b"So"))
    owners = provenance_of(log, Renderer(dialect(FAMILIES["gemma"])))
    assert [span.name for span in owners.spans] == ["event 1", "event 2 reply", "event 3"]


def test_a_conversation_that_said_nothing_has_nothing_to_explain() -> None:
    owners = provenance_of(Conversation(HEAD), RENDER)
    assert owners.spans == ()
    with pytest.raises(ValueError, match="0 bytes"):
        owners.explain(0)


def test_spans_say_where_their_tool_or_skill_was_registered() -> None:
    tools = Tools()

    @tools.add
    def read_file(path: str) -> str:
        """Read it."""
        return path

    skill = Skill("tidy", "cleans up", "Clean.", "skills/tidy/SKILL.md")
    sources = sources_of(tools, [skill], system="agent.py:7")
    (registered,) = tools
    log = play(User(b"Hi"), head=Head(EPOCH, b"Be brief.", (registered.schema,), (b"tidy: cleans up",)))
    owners = provenance_of(log, RENDER, sources=sources)
    assert {span.source for span in owners.spans if span.name.startswith("head/tool[read_file]")} == {registered.source}
    assert registered.source.rpartition(":")[0] == __file__
    assert [span.source for span in owners.find("head/skill[tidy]")] == ["skills/tidy/SKILL.md:1"]
    assert [span.source for span in owners.find("head/system")] == ["agent.py:7"]
    assert {span.source for span in owners.find("template")} == {""}
    assert __file__.encode() not in sent(log)


def test_what_closes_a_cut_reply_is_the_words_of_the_harness() -> None:
    """They stand before the template's own closer, which keeps its name."""
    cut = Reply(b'<tool_call>\n{"name": "read_f', "length", "auto", 0)
    log = play(User(b"Go"), cut, ToolResults((ToolResult("c00002000", "unknown", b"cut off"),)))
    found = provenance_of(log, RENDER)
    assert_tiled(found.spans, len(sent(log)))
    start = len(sent(log)) - len(log.tip.sent)
    ours, closer = (found.explain(start + at) for at in (0, len(b"</tool_call>")))
    assert (ours.name, ours.end - ours.start, closer.name) == ("harness", len(b"</tool_call>"), "template/closer")
