"""Cost: measured through the protocol of every engine, and shared out to the byte's owner."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.conversation import Head
from oasis_harness.engine import Completion, Engine, Prompt, Sampling, ScriptedEngine, Step, Timing
from oasis_harness.errors import CannotMeasure
from oasis_harness.guard import Cost, NotMeasured, PrefillRate, measure_prefill, snapshot_of
from oasis_harness.guard.cost.rates import machine
from oasis_harness.guard.review import CostRow, compare, costs_of
from oasis_harness.render import Dialect
from oasis_harness.tokens import byte_tokenizer
from tests.render.families import VARIABLES
from tests.render.talk import EPOCH, tool
from tests.render.templates import CHATML, CHATML_TOOLS

TOKENS = byte_tokenizer(["<|im_start|>", "<|im_end|>"])
RATE = PrefillRate("tiny", "Linux x86_64, 2 cores", 200.0, 3, 0.1, 256)


class TimedEngine(ScriptedEngine):
    """A scripted engine that says how long its first token took; what it was told to forget is kept."""

    def __init__(self, seconds: Sequence[float]) -> None:
        super().__init__(["x"] * len(seconds))
        self.forgotten: list[str] = []
        self._seconds = list(seconds)

    def generate(self, prompt: Prompt, sampling: Sampling) -> Iterator[Step]:
        for step in super().generate(prompt, sampling):
            yield replace(step, timing=Timing(self._seconds.pop(0), 9.0)) if isinstance(step, Completion) else step

    def forget(self, conversation: str) -> None:
        super().forget(conversation)
        self.forgotten.append(conversation)


def test_the_rate_is_the_median_of_the_runs_after_the_first() -> None:
    """The first call builds what an engine needs, and is not counted."""
    rate = measure_prefill(TimedEngine([60.0, 1.0, 4.0, 2.0]), n_tokens=200)
    assert rate == PrefillRate("scripted", machine(), 100.0, 3, (200 - 50) / 100, 200)
    assert str(rate) == f"100.0 tokens/s (scripted, {machine()}; 3 runs of 200 tokens, spread 150%)"


def test_every_run_reads_a_prompt_that_was_never_sent() -> None:
    """Of ordinary tokens; the first differs, so no run can reuse another's. One token is sampled, nothing is kept."""
    engine = TimedEngine([1.0] * 4)
    measure_prefill(engine, n_tokens=300)
    assert [len(prompt.ids) for prompt in engine.prompts] == [300] * 4
    assert len({prompt.conversation for prompt in engine.prompts}) == len({int(p.ids[0]) for p in engine.prompts}) == 4
    assert all(int(max(prompt.ids)) < 256 and not prompt.ids.flags.writeable for prompt in engine.prompts)
    assert {sampling.max_tokens for sampling in engine.samplings} == {1}
    assert engine.forgotten == [prompt.conversation for prompt in engine.prompts]
    again = TimedEngine([1.0] * 4)
    measure_prefill(again, n_tokens=300)
    assert [p.ids.tolist() for p in again.prompts] == [p.ids.tolist() for p in engine.prompts]


def test_what_a_failed_call_holds_is_forgotten_too() -> None:
    engine = TimedEngine([1.0])
    with pytest.raises(Exception, match="only 1 replies"):
        measure_prefill(engine)
    assert len(engine.forgotten) == 2


def test_an_engine_that_keeps_no_time_gives_no_rate() -> None:
    with pytest.raises(CannotMeasure, match="nothing to measure"):
        measure_prefill(ScriptedEngine(["x"] * 4))


def test_a_vocabulary_of_special_tokens_gives_no_rate() -> None:
    engine = TimedEngine([1.0])
    pieces = [b"a", b"b", b"", b"<s>"]
    tokenizer = type(TOKENS)(pieces, {"<s>": 3}, lambda text: [], digest="few")
    engine.model_info = replace(engine.model_info, tokenizer=tokenizer, stop_ids=frozenset({1}))
    with pytest.raises(CannotMeasure, match="has 1 ordinary tokens, 4 are needed"):
        measure_prefill(engine)


@pytest.mark.parametrize("asked", [{"n_tokens": 0}, {"n_runs": 0}])
def test_measuring_nothing_is_refused(asked: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="needs tokens and runs"):
        measure_prefill(ScriptedEngine([]), **asked)


def test_an_engine_that_reads_nothing_gives_no_rate() -> None:
    """A cache that holds a prompt it was never shown."""

    class Holding(TimedEngine):
        def generate(self, prompt: Prompt, sampling: Sampling) -> Iterator[Step]:
            for step in super().generate(prompt, sampling):
                yield replace(step, n_prefilled=0) if isinstance(step, Completion) else step

    with pytest.raises(CannotMeasure, match=r"0 tokens read in 1\.0 s"):
        measure_prefill(Holding([1.0]))


def test_the_machine_has_a_kind_and_no_name() -> None:
    assert machine().split()[0] in ("Linux", "Darwin") and machine().rpartition(", ")[2].split()[1] in ("core", "cores")


@pytest.mark.slow
def test_a_real_engine_is_measured(tmp_path: Path) -> None:
    """A tiny random model, through the same protocol; it reads every token, and holds nothing afterwards."""
    pytest.importorskip("mlx_lm")
    from oasis_harness.embedded.runtime import MlxEngine
    from tests.embedded.tiny import write_tiny_model

    with MlxEngine(write_tiny_model(tmp_path / "llama", "llama")) as opened:
        engine: Engine = opened
        rate = measure_prefill(engine, n_tokens=64)
        assert rate.model == "llama" and rate.tokens_per_s > 0 and rate.spread >= 0
        assert opened._live_caches == {}


def test_a_cost_is_told_a_conversation_and_a_thousand() -> None:
    cost = Cost(RATE, 50)
    assert (cost.s_per_conversation, cost.s_per_1000_conversations) == (0.25, 250.0)
    assert str(cost).startswith("50 tokens: 0.25 s a conversation, 250 s a thousand, at 200.0 tokens/s (tiny, ")
    assert str(NotMeasured("no engine")) == "not measured: no engine"


# Shares


@cache
def composed(template: str) -> Dialect:
    return Dialect.compose(template, variables=VARIABLES)


def rows(system: str, *names: str, skills: tuple[bytes, ...] = (), template: str = CHATML_TOOLS) -> tuple[CostRow, ...]:
    head = Head(EPOCH, system.encode(), tuple(json.dumps(tool(name)).encode() for name in names), skills)
    spoken = composed(template)
    sources = {"head/system": "agent.py:7"}
    taken = snapshot_of(head, spoken, name="head", dialect_name="d", tokenizer=TOKENS, sources=sources)
    found = costs_of(taken, TOKENS, RATE)
    assert sum(row.n_tokens for row in found) == taken.n_tokens and sum(row.n_bytes for row in found) == len(taken.data)
    assert all(row.s == row.n_tokens / 200 for row in found)
    return found


@pytest.mark.slow
@given(st.lists(st.sampled_from(["a", "\n", " ", "é", "<|im_end|>", "\r"]), max_size=9).map("".join), st.booleans())
def test_the_shares_add_up_to_the_whole(system: str, has_tools: bool) -> None:
    """Whatever the text, with tools in the template and in the system text."""
    for template in (CHATML, CHATML_TOOLS):
        rows(system, *(["shell"] if has_tools else []), skills=(b"tidy: cleans up",), template=template)


def test_each_tool_skill_and_paragraph_has_its_share() -> None:
    found = {row.name: row for row in rows("One.\n\nTwo,\nthree.\n \n\nFour.", "shell", skills=(b"tidy: cleans up",))}
    assert list(found) == [
        *("template", "system 1", "system 2", "system 3", "harness", "skill[tidy]"),
        "tool[shell]",
    ]
    assert [found[f"system {n}"].text for n in (1, 2, 3)] == ["One.", "Two, three.", "Four."]
    assert [found[f"system {n}"].n_tokens for n in (1, 2, 3)] == [6, 15, 5]
    assert found["skill[tidy]"].n_tokens == len("tidy: cleans up") and found["system 1"].source == "agent.py:7"
    assert found["tool[shell]"].n_tokens > 100


@pytest.mark.parametrize(("further", "shares"), [(-1, (2, 0)), (0, (1, 1)), (1, (1, 1))])
def test_a_token_counts_for_whom_its_first_byte_is(further: int, shares: tuple[int, int]) -> None:
    """A token that reaches across two owners is not cut in two."""
    taken = snapshot_of(Head(EPOCH, b"ab"), composed(CHATML), name="h", dialect_name="d", tokenizer=TOKENS)
    at = next(span.start for span in taken.spans if span.name == "head/system") + further
    wide = type(TOKENS)([taken.data[:at], taken.data[at:]], {}, lambda text: [], digest="w")
    found = {row.name: row.n_tokens for row in costs_of(replace(taken, ids=(0, 1), tokenizer="w"), wide)}
    assert (found["template"], found["system 1"]) == shares


def test_without_a_rate_there_are_no_seconds_and_without_tokens_no_rows() -> None:
    taken = snapshot_of(Head(EPOCH, b"ab"), composed(CHATML), name="h", dialect_name="d", tokenizer=TOKENS)
    assert {row.s for row in costs_of(taken, TOKENS)} == {None}
    for other in (replace(taken, ids=None), replace(taken, tokenizer="another")):
        with pytest.raises(ValueError, match="was not taken with"):
            costs_of(other, TOKENS)


def test_a_capability_as_tools_is_compared_with_itself_as_a_skill() -> None:
    """The skill's line is read in every conversation, its body only where it is loaded."""
    as_tools, as_skill = rows("Be brief.", "shell", "read_file"), rows("Be brief.", skills=(b"tidy: cleans up",))
    trade = compare(as_tools, as_skill, n_loaded=1000)
    assert trade.n_as_tools == sum(row.n_tokens for row in as_tools) > trade.n_as_skill
    assert trade.break_even == (trade.n_as_tools - trade.n_as_skill) / 1000
    assert compare(as_tools, as_skill).break_even is None
