"""What was thought stays, or goes with a new epoch; what a reply left open is closed by words that are recorded."""

from dataclasses import replace
from pathlib import Path

import pytest

from oasis_harness import Sampling, ScriptedEngine, Session
from oasis_harness.agent import ReasoningPolicy
from oasis_harness.conversation import Conversation, ConversationFile, Epoch, Head, ReasoningDropped
from oasis_harness.engine import ModelInfo
from oasis_harness.engine.scripted import scripted_model_info
from oasis_harness.errors import PromptTooLong
from oasis_harness.templates import Template
from oasis_harness.tokens import byte_tokenizer
from tests.render.thinkers import THINKING

PROMPTED = THINKING.replace(
    "{{- '<|im_start|>assistant\\n' }}\n{%- if enable", "{{- '<|im_start|>assistant\\n<think>\\n' }}\n{%- if enable"
)
KEEPING = THINKING.replace("loop.index0 > last.user and", "(keep_thoughts or loop.index0 > last.user) and")
MARKS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]


def model_info(template: str) -> ModelInfo:
    tokenizer = byte_tokenizer(MARKS)
    stops = frozenset({tokenizer.specials["<|im_end|>"]})
    return replace(scripted_model_info(), tokenizer=tokenizer, chat_template=template, stop_ids=stops)


def session(replies: list[str], template: str = THINKING, **options: object) -> Session:
    return Session(ScriptedEngine(replies, model_info=model_info(template)), policy="raise", **options)  # type: ignore[arg-type]


def prompt(talk: Session) -> str:
    return talk.engine.model_info.tokenizer.decode(talk.conversation.ids.tolist()).decode()


def test_thoughts_stay_if_nothing_else_is_said() -> None:
    """The prompt only grows, though the template would drop them."""
    talk = session(["<think>\nhm\n</think>\n\nHello", "<think>\nmh\n</think>\n\nBye"])
    talk.send("Hi")
    talk.send("Go")
    assert talk.dialect.drops_reasoning
    assert prompt(talk).count("<think>") == 2 and talk.turns[1].reuse.deficit == 0


@pytest.mark.parametrize("template, opened, n_dropped", [(THINKING, "<think>\n", 8), (PROMPTED, "", 8)])
def test_under_the_policy_epoch_they_go_at_the_next_user_turn(template: str, opened: str, n_dropped: int) -> None:
    """With their marks, also one that the prompt opened; all else stays, token for token, and the reuse is exact."""
    talk = session([f"{opened}hm\n</think>\n\nHello", f"{opened}mh\n</think>\n\nBye"], template, reasoning="epoch")
    talk.send("Hi")
    turn = talk.send("Go")
    asked = talk.engine.model_info.tokenizer.decode(talk.engine.prompts[1].ids.tolist()).decode()  # type: ignore[attr-defined]
    assert asked.startswith(
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nGo"
    )
    (event,) = [node.event for node in talk.conversation.nodes() if isinstance(node.event, ReasoningDropped)]
    assert turn.reuse.expected == turn.reuse.reused == event.n_kept and turn.reuse.deficit == 0
    assert event.n_dropped == n_dropped  # the mark of the prompt is one token
    assert talk.conversation.tip.epoch == 1


def test_a_typed_mark_opens_no_reasoning() -> None:
    """Only the scaffold right before a reply may have opened it; a user, or a tool, may speak of the mark."""
    talk = session(["It ends with </think> then.", "Yes.</think>Sure."])
    assert talk.send("What does <think> do?").reasoning == ""
    assert talk.send("And after <think>\n").reasoning == ""
    opened = session(["Hm.</think>Sure."], template=PROMPTED)
    assert opened.send("What does <think> do?").reasoning == "Hm."


def test_a_loaded_conversation_of_many_turns_goes_on(tmp_path: Path) -> None:
    """The opener of a reply is found without those of all replies before it."""
    path = tmp_path / "c.jsonl"
    with session(["<think>\nhm\n</think>\n\nHello"] * 400, path=path) as talk:
        for n in range(400):
            talk.send(f"Turn {n}")
    again = Session.load(path, ScriptedEngine(["Fine"], model_info=model_info(THINKING)), policy="raise")
    assert again.send("And now?").text == "Fine"


def test_no_epoch_is_opened_where_nothing_was_thought() -> None:
    talk = session(["Hello", "Bye"], reasoning=ReasoningPolicy.EPOCH)
    talk.send("Hi")
    talk.send("Go")
    assert talk.conversation.tip.epoch == 0


def test_a_switch_that_keeps_thoughts_is_set_and_makes_the_policy_needless() -> None:
    """The template's own render then extends; the switch is part of the epoch, so a loaded session has it too."""
    talk = session(["<think>\nhm\n</think>\n\nHello", "Bye"], KEEPING, reasoning="epoch")
    talk.send("Hi")
    talk.send("Go")
    assert talk.dialect.switch is not None and talk.dialect.switch.name == "keep_thoughts"
    assert talk.conversation.epoch.switches() == {"keep_thoughts": True}
    assert talk.conversation.tip.epoch == 0 and prompt(talk).count("<think>") == 1


def test_a_switch_that_its_user_sets_is_left_alone() -> None:
    talk = session(["Hello"], KEEPING, arguments={"keep_thoughts": False})
    assert talk.dialect.switch is None and talk.dialect.drops_reasoning


def test_a_conversation_without_its_thoughts_is_continued_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    talk = session(["<think>\nhm\n</think>\n\nHello", "<think>\nmh\n</think>\n\nBye"], reasoning="epoch", path=path)
    talk.send("Hi")
    talk.send("Go")
    talk.close()
    again = Session.load(path, ScriptedEngine(["Fine"], model_info=model_info(THINKING)), reasoning="epoch")
    assert again.conversation.tip == talk.conversation.tip
    again.send("More")
    assert "mh" not in prompt(again) and again.conversation.tip.epoch == 2


@pytest.mark.parametrize(
    "said, closing",
    [
        ("<think>\nhm", "\n</think>\n\n"),
        ("<think>\nhm\n</think>\n\nLet me", ""),
        ('<tool_call>\n{"name": "add", "argu', "</tool_call>"),
        ("Let me see", ""),
    ],
)
def test_what_a_cut_reply_left_open_is_closed_by_recorded_words(said: str, closing: str) -> None:
    """They begin the delta of the next event, and its marks are the template's tokens, not typed text."""
    talk = session([f"{said}…", "Bye"], sampling=Sampling(max_tokens=len(said)))
    turn = talk.send("Hi")
    if turn.calls:
        talk.record_results({turn.calls[0].id: "cut off"})
    else:
        talk.send("Go")
    sent = next(node for node in talk.conversation.nodes() if node.index == 3)
    assert sent.sent.startswith(f"{closing}<|im_end|>".encode())
    specials = talk.engine.model_info.tokenizer.specials
    assert not closing or specials[closing.strip()] in sent.ids


def test_what_old_and_new_prompt_share_is_kept_however_the_answer_begins() -> None:
    """A reply with two thoughts goes on, without the first, as it began: the engine reuses that too."""
    talk = session(["<think>\na\n</think>\n\n<think>\nb", "Bye"], reasoning="epoch")
    talk.send("Hi")
    turn = talk.send("Go")
    assert turn.reuse.expected == turn.reuse.reused > len("<|im_start|>user\nHi") and turn.reuse.deficit == 0


def test_a_fork_in_an_older_epoch_is_asked_for_the_first_time() -> None:
    """The engine holds the newer epoch; what it would hand over is another prompt."""
    talk = session(["<think>\na\n</think>\n\nHello", "Bye", "Other"], reasoning="epoch")
    talk.send("Hi")
    at = talk.conversation.tip
    talk.send("Go")
    assert talk.fork(at).send("Else").reuse.cause == "cold"


def test_a_mark_of_the_prompt_that_nothing_was_said_after_goes_too() -> None:
    """Nothing closes it once its reply is not the last event."""
    call = 'hm\n</think>\n\n<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>'
    talk = session([call, "", "mh\n</think>\n\nBye"], PROMPTED, reasoning="epoch")
    talk.record_results({talk.send("Hi").calls[0].id: "x" * 200})
    stream = talk.reply()
    next(stream)
    stream.close()  # type: ignore[attr-defined]  # a generator
    assert talk.send("Go").reuse.deficit == 0
    assert prompt(talk).count("<think>") == prompt(talk).count("</think>") == 1


def test_the_words_that_closed_a_thought_go_with_it(tmp_path: Path) -> None:
    said, path = "<think>\nhm", tmp_path / "c.jsonl"
    with session([f"{said}…", "Bye"], sampling=Sampling(max_tokens=len(said)), path=path) as talk:
        talk.send("Hi")
        talk.send("Go")
    again = Session.load(path, ScriptedEngine(["Fine"], model_info=model_info(THINKING)), reasoning="epoch")
    again.send("More")
    assert "think>" not in prompt(again)


def test_a_turn_that_does_not_fit_opens_no_epoch() -> None:
    talk = Session(
        ScriptedEngine(["<think>\nhm\n</think>\n\nHello"], model_info=replace(model_info(THINKING), n_context=300)),
        reasoning="epoch",
    )
    talk.send("Hi")
    tip = talk.conversation.tip
    with pytest.raises(PromptTooLong):
        talk.send("x" * 400)
    assert talk.conversation.tip == tip


def test_a_conversation_that_was_begun_without_the_switch_goes_on_without_it(tmp_path: Path) -> None:
    ours, path = model_info(KEEPING), tmp_path / "c.jsonl"
    template = Template(KEEPING, variables=ours.template_variables)
    file = ConversationFile(path)
    Conversation(Head(Epoch(template.digest, "{}", ours.tokenizer.digest), b""), sink=file.append)
    file.close()
    again = Session.load(path, ScriptedEngine(["Hello"], model_info=ours))
    assert again.send("Hi").text == "Hello" and again.dialect.switch is None
