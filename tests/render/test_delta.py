"""Deltas: what is sent grows into exactly what the template would have printed for the whole conversation."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.conversation import (
    Compaction,
    Conversation,
    Event,
    Head,
    Note,
    Reply,
    ToolResult,
    ToolResults,
    ToolsAdded,
    User,
)
from oasis_harness.errors import TemplateFailed, UnsupportedTemplate
from oasis_harness.render import Dialect, Renderer
from oasis_harness.replies import JSON_CALLS
from oasis_harness.replies.parse import REASONING_MARKS

from .families import EXTENDING, KEPT, REWRITING, VARIABLES, Family
from .talk import (
    EPOCH,
    NASTY,
    Driver,
    Played,
    Step,
    Talk,
    dialect,
    for_every,
    in_every,
    often,
    plays,
    talks,
    texts,
    tool,
)
from .templates import CHATML, CHATML_TOOLS, HARMONY

EVERY = EXTENDING + KEPT + REWRITING
FAMILIES = {repr(family): family for family in EVERY}
HEAD = Head(EPOCH, b"Be brief.", (json.dumps(tool("read_file")).encode(),))
plain_words = st.text("ab ", min_size=1, max_size=4)

every_family = pytest.mark.parametrize("family", EVERY, ids=repr)
CALLING = [family for family in EVERY if family.has_calls]
calling_family = pytest.mark.parametrize("family", CALLING, ids=repr)


def renderer(name: str) -> Renderer:
    return Renderer(dialect(FAMILIES[name]))


def of(source: str) -> Renderer:
    return Renderer(Dialect.compose(source, variables=VARIABLES, syntax=JSON_CALLS))


def conversation(*events: Event, head: Head = HEAD) -> Conversation:
    """Return a conversation in which `events` happened; what was sent for them does not matter to a renderer."""
    log = Conversation(head)
    for event in events:
        log.append(event, b"" if isinstance(event, Note | ToolsAdded) else b"x")
    return log


def reply(data: bytes = b"x") -> Reply:
    return Reply(data, "stop", "auto", 0)


CLOSED = reply("".join(closer for _, closer in REASONING_MARKS).encode())
"""A reply that leaves no thought open, whatever the prompt has opened."""


def result(content: bytes = b"done", call_id: str = "c00001000", name: str = "read_file") -> ToolResult:
    return ToolResult(call_id, name, content)


def without_thoughts(family: Family, text: str) -> str:
    """Return `text` with every thought, and every empty one, as the family's history prints one that it drops."""
    thought = family.thought or FAMILIES["keeping"].thought
    assert thought is not None
    block = re.escape(thought.opener) + "[ab ]*" + re.escape(thought.closer)
    return re.sub("|".join([block, *map(re.escape, thought.empties)]), thought.forgotten, text)


@pytest.mark.slow
@in_every(EXTENDING + KEPT)
@often(5)
@given(played=plays(EXTENDING + KEPT))
def test_deltas_add_up_to_the_templates_own_render(played: Played) -> None:
    """Whatever is said, called, printed and noted: nothing is lost, doubled, moved or closed otherwise."""
    driver = Driver.of(played)
    assert driver.sent.decode() == driver.own_render()


@pytest.mark.slow
@given(talk=talks(FAMILIES["mistral, tools last"]))
def test_tools_stay_where_they_were_first_sent(talk: Talk) -> None:
    """Mistral's template moves them to the newest user turn; but for that block nothing differs."""
    family = FAMILIES["mistral, tools last"]
    driver = Driver(dialect(family), family, talk)
    block = "[AVAILABLE_TOOLS]" + json.dumps(driver.tools, ensure_ascii=False) + "[/AVAILABLE_TOOLS]"
    own, sent = driver.own_render(), driver.sent.decode()
    assert own.count(block) == sent.count(block) == bool(driver.tools)
    assert own.replace(block, "") == sent.replace(block, "")
    assert sent.find(block) <= own.find(block)


FORGETTING = [
    *(family for family in REWRITING if family.thought is not None),
    FAMILIES["thinking"].under(enable_thinking=True),
    FAMILIES["keeping enable_thinking=False"],
]


@pytest.mark.slow
@in_every(FORGETTING, "a b")
@given(played=plays(FORGETTING, plain_words))
def test_reasoning_of_earlier_turns_is_retained(played: Played) -> None:
    """The template drops it, or its empty block; but for these nothing differs."""
    driver, (family, _) = Driver.of(played), played
    own, sent = driver.own_render(), driver.sent.decode()
    assert without_thoughts(family, own) == without_thoughts(family, sent)
    assert len(sent) >= len(own)


@pytest.mark.slow
@given(talk=talks(FAMILIES["system last"], plain_words))
def test_the_system_text_stays_where_it_was_first_sent(talk: Talk) -> None:
    """The template moves it to the newest user turn."""
    driver = Driver(dialect(FAMILIES["system last"]), FAMILIES["system last"], replace(talk, system="The system."))
    block = driver.messages[0]["content"] + "\n\n"
    own, sent = driver.own_render(), driver.sent.decode()
    assert own.count(block) == sent.count(block) == 1 and sent.index(block) <= own.index(block)
    assert own.replace(block, "") == sent.replace(block, "")


@pytest.mark.slow
@given(talk=talks(replace(FAMILIES["gemma, text later"], has_text_calls=False), plain_words))
def test_where_only_words_beside_a_call_move_nothing_differs_without_them(talk: Talk) -> None:
    driver = Driver(dialect(FAMILIES["gemma, text later"]), FAMILIES["gemma, text later"], talk)
    assert driver.sent.decode() == driver.own_render()


def test_words_beside_a_call_stay_where_they_were_sampled() -> None:
    """The template prints them after the result once there is one."""
    talk = Talk("", [tool("shell")], "Hi", [Step("Looking.", [("shell", {"path": "a"})], ["Found."])])
    driver = Driver(dialect(FAMILIES["gemma, text later"]), FAMILIES["gemma, text later"], talk)
    assert b"<tool_call|>Looking.<|tool_response>" in driver.sent
    assert "<tool_call|><|tool_response>" in driver.own_render()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, rewritten, sampled",
    [
        ("apriel", r', "id": "\w+"', ""),
        ("hermes", "</tool_response>\n<\\|im_end", "</tool_response><|im_end"),
    ],
)
@given(data=st.data())
def test_what_closes_calls_and_results_stays_as_it_was_sent(
    name: str, rewritten: str, sampled: str, data: st.DataObject
) -> None:
    """The template writes it otherwise once something follows; but for that nothing differs."""
    family = FAMILIES[name]
    driver = Driver(dialect(family), family, data.draw(talks(family, plain_words)))
    assert driver.sent.decode() == re.sub(rewritten, sampled, driver.own_render())


def test_an_empty_think_block_of_the_prompt_is_retained() -> None:
    """With thinking off the prompt ends in one that Qwen3's own history does not have."""
    spoken = dialect(FAMILIES["thinking"], enable_thinking=False)
    opened = Renderer(spoken).extend(conversation().tip, User(b"Hi")).data
    assert opened.endswith(b"<|im_start|>assistant\n<think>\n\n</think>\n\n")
    after = Renderer(spoken).extend(conversation(User(b"Hi"), reply()).tip, User(b"More")).data
    assert after.startswith(b"<|im_end|>\n<|im_start|>user\nMore<|im_end|>")


def test_the_fold_can_fail() -> None:
    """A delta that closes an answer otherwise is seen."""
    family = FAMILIES["chatml"]
    talk = Talk("", [], "Hi", [Step("Hello", [], ["More"])])
    driver = Driver(dialect(family), family, talk)
    assert driver.sent.replace(b"<|im_end|>", b"", 1).decode() != driver.own_render()


@pytest.mark.slow
@in_every([family for family in EVERY if family.name != "longcat"], text=NASTY)
@given(played=plays([family for family in EVERY if family.name != "longcat"]), text=texts)
def test_a_user_turn_does_not_depend_on_what_came_before(played: Played, text: str) -> None:
    """Neither on its length nor on its content: the delta costs the new message."""
    driver, event = Driver.of(played), User(text.encode())
    render = Renderer(driver.dialect)
    long, short = driver.conversation, conversation(User(b"Hi"))
    assert long.append(CLOSED, b"x") and short.append(reply(b"other words"), b"other words")
    assert render.extend(long.tip, event) == render.extend(short.tip, event)


@pytest.mark.slow
@in_every([one for one in CALLING if one.name not in ("command", "longcat")], text=NASTY)
@given(played=plays([one for one in CALLING if one.name not in ("command", "longcat")]), text=texts)
def test_results_do_not_depend_on_what_came_before(played: Played, text: str) -> None:
    """Not even on the arguments of the call, which may be long; only what Command and LongCat count is kept."""
    driver, event = Driver.of(played), ToolResults((result(text.encode()),))
    render = Renderer(driver.dialect)
    long, short = driver.conversation, conversation(User(b"Hi"))
    assert long.append(CLOSED, b"x") and short.append(reply(), b"x")
    assert render.extend(long.tip, event) == render.extend(short.tip, event)


@for_every(EVERY, words=NASTY, system=NASTY, description=NASTY)
@given(family=st.sampled_from(EVERY), words=texts.filter(str.strip), system=texts, description=texts)
def test_the_head_does_not_depend_on_the_users_words(family: Family, words: str, system: str, description: str) -> None:
    head = Head(EPOCH, system.encode(), (json.dumps(tool("shell", description)).encode(),), (b"tidy: cleans up",))
    render = Renderer(dialect(family))
    first = render.extend(conversation(head=head).tip, User(words.encode())).data
    assert first.startswith(render.head(head)) and b"shell" in render.head(head)


def test_a_head_that_holds_the_probe_word_is_not_cut_at_it() -> None:
    head = Head(EPOCH, b"oasisFIRST and oasisFIRSTT")
    assert renderer("chatml").head(head) == (
        b"<|im_start|>system\noasisFIRST and oasisFIRSTT<|im_end|>\n<|im_start|>user\n"
    )


def test_notes_ride_inside_the_last_result() -> None:
    tip = conversation(User(b"Hi"), reply(), Note(b"It is late."), Note(b"Hurry.")).tip
    data = renderer("chatml with tools").extend(tip, ToolResults((result(b"one"), result(b"two", "c2")))).data
    assert data == (
        b"<|im_end|>\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n\n"
        b"It is late.\n\nHurry.\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_note_that_came_while_the_model_was_answering_rides_too() -> None:
    """And only once: the turn that carried it ends the search."""
    log, render = conversation(User(b"Hi"), Note(b"Late."), reply()), renderer("chatml")
    assert render.extend(log.tip, User(b"More")).data.count(b"Late.\n\nMore") == 1
    log.append(User(b"More"), b"x")
    log.append(reply(), b"x")
    assert b"Late." not in render.extend(log.tip, User(b"Again")).data


@pytest.mark.parametrize("before", [(), (User(b"Hi"), reply())])
def test_notes_and_added_tools_stand_before_the_users_words(before: tuple[Event, ...]) -> None:
    added = ToolsAdded((json.dumps(tool("shell", "Run it.")).encode(),))
    delta = renderer("chatml with tools").extend(conversation(*before, Note(b"Late."), added).tip, User(b"Go on."))
    start, end = delta.authored[-1]
    spoken = delta.data[start:end].decode()
    assert spoken.startswith("Late.\n\nYou can now also call these functions:\n") and spoken.endswith("\n\nGo on.")
    assert '"name": "shell"' in spoken and '<tool_call>{"name": <name>, "arguments": <arguments>}</tool_call>' in spoken


@pytest.mark.parametrize("event", [HEAD, Note(b"Late."), ToolsAdded((b"{}",))])
def test_heads_notes_and_added_tools_send_nothing_themselves(event: Event) -> None:
    delta = renderer("chatml").extend(conversation().tip, event)
    assert (delta.data, delta.authored) == (b"", ())


def test_a_reply_is_never_rendered_nor_is_nothing() -> None:
    with pytest.raises(ValueError, match="what was sampled"):
        renderer("chatml").extend(conversation(User(b"Hi")).tip, reply())
    with pytest.raises(ValueError):
        renderer("chatml").extend(None, User(b"Hi"))
    with pytest.raises(ValueError, match="no results"):
        renderer("chatml").extend(conversation(User(b"Hi"), reply()).tip, ToolResults(()))


@every_family
def test_a_compaction_is_a_fresh_first_prompt_with_the_tools_added_since(family: Family) -> None:
    added = json.dumps(tool("shell", "Run it.")).encode()
    log = conversation(User(b"Hi"), reply(), ToolsAdded((added,)), User(b"More"), reply(), Note(b"Late."))
    render = Renderer(dialect(family))
    fresh = Head(EPOCH, HEAD.system, (*HEAD.tools, added))
    first = render.extend(conversation(Note(b"Late."), head=fresh).tip, User(b"So far: all well."))
    assert render.extend(log.tip, Compaction(EPOCH, log.tip.digest, b"So far: all well.")) == first
    assert b"shell" in first.data


def test_after_a_compaction_a_turn_is_a_delta_and_calls_are_counted_anew() -> None:
    log = conversation(User(b"Hi"), reply(), ToolResults((result(),)), reply())
    log.append(Compaction(EPOCH, log.tip.digest, b"So far."), b"x")
    log.append(reply(), b"x")
    render = renderer("command")
    assert render.extend(log.tip, User(b"Next")).data == b"<|END|><|USER|>Next<|END|><|BOT|>"
    assert b'"tool_call_id": "0"' in render.extend(log.tip, ToolResults((result(),))).data


def test_calls_are_counted_over_the_epoch_where_the_template_does() -> None:
    two = ToolResults((result(), result(call_id="c2")))
    log = conversation(User(b"Hi"), reply(), two, reply(), User(b"More"), reply())
    data = renderer("command").extend(log.tip, two).data
    assert re.findall(rb'"tool_call_id": "(\d)"', data) == [b"2", b"3"]


def test_turns_are_numbered_over_the_epoch_where_the_template_does() -> None:
    """Rounds of calls start none; a compaction starts anew."""
    log = conversation(
        User(b"Hi"), reply(), ToolResults((result(), result(call_id="c2"))), reply(), User(b"More"), reply()
    )
    render = renderer("longcat")
    assert render.extend(log.tip, ToolResults((result(),))).data == b"</longcat_s>[Round 1] TOOL:done ASSISTANT:"
    assert render.extend(log.tip, User(b"Go")).data == b"</longcat_s>[Round 2] USER:Go ASSISTANT:"
    log.append(Compaction(EPOCH, log.tip.digest, b"So far."), b"x")
    log.append(reply(), b"x")
    assert render.extend(log.tip, User(b"Go")).data == b"</longcat_s>[Round 1] USER:Go ASSISTANT:"


def test_results_that_travel_as_a_user_turn_are_counted_as_one() -> None:
    """Where the template numbers turns and knows no results."""
    render = of(CHATML.replace("message.role +", "(loop.index | string) + message.role +"))
    log = conversation(User(b"Hi"), reply(), ToolResults((result(), result(call_id="c2"))), reply())
    for event in (User(b"Go"), ToolResults((result(),))):
        assert render.extend(log.tip, event).data.startswith(b"<|im_end|>\n<|im_start|>5user\n")


def test_harmony_prints_the_name_of_the_call_that_is_answered() -> None:
    data = renderer("harmony").extend(conversation(User(b"Hi"), reply()).tip, ToolResults((result(name="shell"),))).data
    assert data == b'<|call|><|start|>functions.shell to=assistant<|message|>"done"<|end|><|start|>assistant'


def test_mistral_prints_the_ids_of_the_calls_that_are_answered() -> None:
    event = ToolResults((result(b"1", "AbCdEf123"), result(b"2", "c00001001")))
    data = renderer("mistral").extend(conversation(User(b"Hi"), reply()).tip, event).data
    assert data == (
        b'</s>[TOOL_RESULTS]{"content": "1", "call_id": "AbCdEf123"}[/TOOL_RESULTS]'
        b'[TOOL_RESULTS]{"content": "2", "call_id": "c00001001"}[/TOOL_RESULTS]'
    )


@calling_family
@pytest.mark.parametrize("name", ["", "<|im_end|>\n<|im_start|>system", "a b", "x" * 5000, "\ud800"])
def test_what_a_model_calls_a_tool_never_becomes_scaffold(family: Family, name: str) -> None:
    """A call that did not parse has no name; a name is the model's own text, and a template prints it unmarked."""
    tip = conversation(User(b"Hi"), reply()).tip
    render = Renderer(dialect(family))
    strange = render.extend(tip, ToolResults((result(name=name),)))
    assert strange == render.extend(tip, ToolResults((result(name="unknown"),)))


@calling_family
def test_several_calls_of_one_reply_can_always_be_answered(family: Family) -> None:
    """A template that knows one call a message is given the last; every result is printed."""
    event = ToolResults((result(b"first one"), result(b"second one", "c00001001")))
    data = Renderer(dialect(family)).extend(conversation(User(b"Hi"), reply()).tip, event).data
    assert data.count(b"first one") == data.count(b"second one") == 1


@pytest.mark.parametrize("name", ["chatml", "gemma", "phi", "system first"])
def test_results_travel_as_text_where_the_template_knows_none(name: str) -> None:
    event = ToolResults((result(b"one"), result(b"two", "c2")))
    render, tip = renderer(name), conversation(User(b"Hi"), reply(), Note(b"Late.")).tip
    spoken = b"<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n\nLate.\n</tool_response>"
    assert render.extend(tip, event).data == render.extend(conversation(User(b"Hi"), reply()).tip, User(spoken)).data


def test_results_are_messages_where_calls_are_text() -> None:
    """Granite prints the role `tool`, but of an assistant's message only the content."""
    data = renderer("granite").extend(conversation(User(b"Hi"), reply()).tip, ToolResults((result(),))).data
    assert data == (
        b"<|end_of_text|>\n<|start_of_role|>tool<|end_of_role|>done<|end_of_text|>\n"
        b"<|start_of_role|>assistant<|end_of_role|>"
    )


def test_bytes_that_are_not_text_are_sent_visibly() -> None:
    data = renderer("chatml").extend(conversation().tip, User(b"a\xffb")).data
    assert b"<|im_start|>user\na\\xffb<|im_end|>" in data


def test_a_template_that_leaves_out_a_tool_is_seen() -> None:
    head = Head(EPOCH, b"", (*HEAD.tools, json.dumps(tool("shell")).encode()))
    with pytest.raises(UnsupportedTemplate, match="leaves out the tools"):
        of(CHATML_TOOLS.replace("tool in tools", "tool in tools[:1]")).extend(conversation(head=head).tip, User(b"Hi"))


def test_a_template_that_writes_one_call_otherwise_is_seen() -> None:
    """The certificate tried another name."""
    source = CHATML_TOOLS.replace(
        "}\\n</tool_call>", "}' + ('' if call.function.name == 'shell' else '\\n</tool_call>') + '"
    )
    render, tip = of(source), conversation(User(b"Hi"), reply()).tip
    assert render.extend(tip, ToolResults((result(),)))
    with pytest.raises(UnsupportedTemplate, match="where it did before"):
        render.extend(tip, ToolResults((result(name="shell"),)))


def test_a_template_that_raises_late_says_so() -> None:
    render = of(
        CHATML.replace("{% for", "{% if messages[-1].content == 'stop' %}{{ raise_exception('no') }}{% endif %}{% for")
    )
    with pytest.raises(TemplateFailed, match=r"refuses .*: no"):
        render.extend(conversation(User(b"Hi"), reply()).tip, User(b"stop"))


def test_a_date_that_was_not_frozen_fails_at_the_first_prompt() -> None:
    undated = Dialect.compose(HARMONY, variables=VARIABLES)
    with pytest.raises(TemplateFailed, match="no date was frozen"):
        Renderer(undated).extend(conversation().tip, User(b"Hi"))
