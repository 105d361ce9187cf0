"""Whatever happens to a conversation, appending extends its recorded prompt, and nothing but a new epoch moves it."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from oasis_harness.conversation import Compaction, Conversation, Head, Note, Reply, ToolResult, ToolResults, User
from oasis_harness.conversation import load as load_nodes
from oasis_harness.conversation import save as save_nodes
from oasis_harness.guard import Category, SnapshotFolder, snapshot_of
from oasis_harness.render import Renderer
from oasis_harness.tokens import byte_tokenizer
from tests.render.families import EXTENDING
from tests.render.talk import dialect, tool

TOKENIZER = byte_tokenizer(["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"])
SPOKEN = dialect(next(family for family in EXTENDING if family.name == "chatml with tools"))
EPOCH = SPOKEN.epoch(TOKENIZER.digest)
words = st.text("ab <|im_end|>\n", max_size=8).map(str.encode)


class Kept:
    """A conversation, and the snapshot that was recorded of it last."""

    def __init__(self, log: Conversation, name: str) -> None:
        self.log, self.name = log, name
        self.n_epochs = log.tip.epoch


class Machine(RuleBasedStateMachine):
    """Append, fork, compact, save and load, compared with the snapshots at every step."""

    kept = Bundle("kept")

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = SnapshotFolder(Path(self.scratch.name) / "prompts")
        self.every: list[Kept] = []

    def teardown(self) -> None:
        self.scratch.cleanup()

    def keep(self, log: Conversation) -> Kept:
        """Record a conversation under a name of its own."""
        one = Kept(log, f"c{len(self.every)}")
        self.every.append(one)
        self.folder.record(self.snapshot(one))
        return one

    def snapshot(self, one: Kept):  # type: ignore[no-untyped-def]  # guard.Snapshot
        return snapshot_of(one.log, SPOKEN, name=one.name, dialect_name="chatml", tokenizer=TOKENIZER)

    def say(self, log: Conversation, event: User | ToolResults | Compaction) -> None:
        delta = Renderer(SPOKEN).extend(log.tip, event)
        log.append(event, delta.data, TOKENIZER.encode(delta.data, delta.authored))

    def answer(self, log: Conversation, data: bytes) -> None:
        ids = TOKENIZER.encode(data, [(0, len(data))])
        log.append(Reply(data, "stop", "auto", 0), data, ids)

    @initialize(target=kept, system=words, first=words)
    def open(self, system: bytes, first: bytes) -> Kept:
        log = Conversation(Head(EPOCH, system, (json.dumps(tool("shell")).encode(),)))
        self.say(log, User(first))
        self.answer(log, b"well")
        return self.keep(log)

    @rule(one=kept, text=words, said=words, note=st.none() | words)
    def turn(self, one: Kept, text: bytes, said: bytes, note: bytes | None) -> None:
        if note is not None:
            one.log.append(Note(note))
        self.say(one.log, User(text))
        self.answer(one.log, said)

    @rule(one=kept, results=st.lists(words, min_size=1, max_size=3))
    def call(self, one: Kept, results: list[bytes]) -> None:
        given = [ToolResult(f"c{number:08d}", "shell", text) for number, text in enumerate(results)]
        self.say(one.log, ToolResults(tuple(given)))
        self.answer(one.log, b"so")

    @rule(target=kept, one=kept)
    def fork(self, one: Kept) -> Kept:
        return self.keep(one.log.fork())

    @rule(one=kept, summary=words)
    def compact(self, one: Kept, summary: bytes) -> None:
        self.say(one.log, Compaction(EPOCH, one.log.tip.digest, summary))
        self.answer(one.log, b"on")

    @rule(target=kept, one=kept)
    def save_and_load(self, one: Kept) -> Kept:
        path = Path(self.scratch.name) / f"{one.name}-{len(self.every)}.jsonl"
        save_nodes(one.log, path)
        again = load_nodes(path)
        assert again.tip == one.log.tip and again.ids.tolist() == one.log.ids.tolist()
        return self.keep(again)

    @invariant()
    def a_prompt_is_the_same_or_extended_unless_an_epoch_was_opened(self) -> None:
        for one in self.every:
            found = self.folder.compare(self.snapshot(one)).category
            if one.log.tip.epoch == one.n_epochs:
                assert found in (Category.SAME, Category.EXTENDED)
            else:  # the summary may repeat what was said
                assert found in (Category.MOVED, Category.SAME, Category.EXTENDED)

    @invariant()
    def every_chain_holds_and_decodes_to_what_was_sent(self) -> None:
        for one in self.every:
            one.log.verify()
            epoch = [node for node in one.log.nodes() if node.epoch == one.log.tip.epoch]
            assert TOKENIZER.decode(one.log.ids.tolist()) == b"".join(node.sent for node in epoch)


TestMachine = pytest.mark.slow(Machine.TestCase)
TestMachine.settings = settings(max_examples=20, stateful_step_count=15)  # each step writes files
