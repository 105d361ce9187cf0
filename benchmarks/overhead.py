"""What one turn costs besides the model, at 1k, 10k and 100k tokens of history.

A turn here is all that happens between "the tool has its result" and "the reuse is reported": render the delta, encode
it, append it, hand the ids to the engine, take a fixed short reply, append and parse it, check the reuse. The engine
costs nothing and reuses everything; template and tokenizer are the default model's. Beside it, in the same run, the
usual way: transformers renders and encodes the whole history again.

    python benchmarks/overhead.py

Prints Markdown tables. Exit code 1 when a goal is missed.
"""

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from oasis_harness import Session, workspace_tools
from oasis_harness.embedded import DEFAULT_MODEL, load_blas, pull_model
from oasis_harness.engine import Completion, Finish, ModelInfo, Prompt, Sampling, Step
from oasis_harness.tokens import load_tokenizer

SIZES = (1_000, 10_000, 100_000)
MAX_RATIO = 5.0
"""A turn at the largest size may cost so many times what it costs at the smallest."""
MAX_MS = 1.0
"""... and so much at the largest size."""
N_BRANCHES, N_TURNS = 40, 5
"""Turns measured at each size: so many branches, each so many turns long, after one that is not counted."""
N_RENDERS = 9

SYSTEM = "You are a careful engineer. Read before you change anything, and run the tests afterwards."
TASK = "Find out why the totals of the report are wrong, repair it, and show that the tests pass."
CALL = '<tool_call>{"name": "read_file", "arguments": {"path": "src/report/totals.py", "offset": 41, "limit": 12}}'
CALL += "</tool_call>"
RESULT = '''def total(rows: list[Row], *, currency: str = "EUR") -> Decimal:
    """Add up what was sold, in one currency."""
    amounts = [row.amount for row in rows if row.currency == currency]
    if not amounts:
        raise NoRows(currency)
    return sum(amounts, start=Decimal(0)).quantize(Decimal("0.01"))


def by_month(rows: list[Row]) -> dict[str, Decimal]:
    months = sorted({row.sold_at.strftime("%Y-%m") for row in rows})
    return {month: total([row for row in rows if row.month == month]) for month in months}
[lines 41-52 of 118, continue with offset=53]'''


class FreeEngine:
    """Answers every prompt with the same call, and has read all of it before."""

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / "tokenizer_config.json").read_bytes())
        tokenizer = load_tokenizer(folder / "tokenizer.json")
        eos = settings["eos_token"]
        variables = {key: value for key, value in settings.items() if key.endswith("_token") and isinstance(value, str)}
        self.model_info = ModelInfo(
            name=folder.name,
            tokenizer=tokenizer,
            chat_template=settings["chat_template"],
            template_variables=variables,
            stop_ids=frozenset({tokenizer.specials[eos]}),
            n_context=1_000_000,
        )
        self._reply = tokenizer.encode(CALL.encode())
        self._n_held: dict[str, int] = {}

    def generate(self, prompt: Prompt, sampling: Sampling) -> Iterator[Step]:
        n_held, n_presented = self._n_held.get(prompt.conversation, 0), len(prompt.ids)
        self._n_held[prompt.conversation] = n_presented + len(self._reply)
        yield Completion(self._reply, Finish.STOP, n_presented, n_presented - n_held, n_held, n_held, 0)

    def cancel(self, conversation: str | None = None) -> None: ...

    def fork(self, source: str, target: str, n_tokens: int) -> bool:
        self._n_held[target] = n_tokens
        return True

    def forget(self, conversation: str) -> None:
        self._n_held.pop(conversation, None)

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of one turn at one size."""

    n_tokens: int
    median_ms: float
    p95_ms: float

    @classmethod
    def of(cls, n_tokens: int, times_s: list[float]) -> "Cost":
        ordered = sorted(times_s)
        return cls(n_tokens, 1e3 * statistics.median(ordered), 1e3 * ordered[int(0.95 * len(ordered))])


def grow(session: Session, n_tokens: int) -> None:
    """Play turns of realistic size until the history has `n_tokens`."""
    if not session.turns:
        session.send(TASK)
    while session.conversation.tip.n_tokens < n_tokens:
        play(session)


def play(session: Session) -> float:
    """Give the open call its result, take the next reply, and return the seconds that took."""
    call = session.open_calls[0]
    started = time.perf_counter()
    turn = session.results({call.id: RESULT})
    elapsed_s = time.perf_counter() - started
    assert not turn.reuse.is_fault, turn.reuse
    return elapsed_s


def measure(n_tokens: int, branch: Callable[[], Session]) -> Cost:
    """Measure turns that start from `n_tokens` of history, on fresh branches of it."""
    times_s: list[float] = []
    for _ in range(N_BRANCHES):
        session = branch()
        play(session)  # the first append after a fork copies the ids, and the first call after a load is cold
        times_s += [play(session) for _ in range(N_TURNS)]
        session.close()
    return Cost.of(n_tokens, times_s)


def harness(folder: Path, scratch: Path) -> tuple[list[Cost], list[Cost], str]:
    """Measure turns without and with a conversation file, and say what such a turn is."""
    engine, tools = FreeEngine(folder), workspace_tools(scratch)
    without, with_file = [], []
    what = ""
    for n_tokens in SIZES:
        trunk = Session(engine, system=SYSTEM, tools=tools)
        grow(trunk, n_tokens)
        without.append(measure(n_tokens, trunk.fork))
        saved, copy = scratch / f"{n_tokens}.jsonl", scratch / "branch.jsonl"
        trunk.save(saved)

        def loaded(saved: Path = saved, copy: Path = copy) -> Session:
            shutil.copyfile(saved, copy)
            return Session.load(copy, engine, tools=tools)

        with_file.append(measure(n_tokens, loaded))
        last = trunk.turns[-1]
        what = f"a result of {last.reuse.prefilled} tokens in, a call of {last.usage.n_sampled} tokens out"
    return without, with_file, what


def transformers_costs(folder: Path) -> list[Cost]:
    """Measure transformers rendering and encoding the whole history, as a list of messages, once a turn."""
    from transformers import PreTrainedTokenizerFast

    settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # transformers types only a part of itself
        tokenizer_file=str(folder / "tokenizer.json"),
        chat_template=settings["chat_template"],
        bos_token=settings["bos_token"],
        eos_token=settings["eos_token"],
    )
    result = f"<tool_response>\n{RESULT}\n</tool_response>"
    turn = [{"role": "assistant", "content": CALL}, {"role": "user", "content": result}]
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]

    def ids() -> list[int]:
        rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        encoded: list[int] = tokenizer(rendered, add_special_tokens=False)["input_ids"]
        return encoded

    n_before = len(ids())
    messages += turn
    n_turn = len(ids()) - n_before
    costs = []
    for n_tokens in SIZES:
        messages += turn * max(0, -(-(n_tokens - len(ids())) // n_turn))
        times_s = []
        for _ in range(N_RENDERS):
            started = time.perf_counter()
            ids()
            times_s.append(time.perf_counter() - started)
        costs.append(Cost.of(n_tokens, times_s))
    return costs


def row(name: str, costs: list[Cost]) -> str:
    cells = [f"{cost.median_ms:.2f} ({cost.p95_ms:.2f})" for cost in costs]
    return " | ".join(["", name, *cells, f"{costs[-1].median_ms / costs[0].median_ms:.1f}", ""]).strip()


def main() -> int:
    load_blas()
    folder = pull_model(DEFAULT_MODEL)
    with tempfile.TemporaryDirectory() as scratch:
        without, with_file, what = harness(folder, Path(scratch))
    whole = transformers_costs(folder)
    sizes = [f"{n_tokens:,} tokens" for n_tokens in SIZES]
    print(f"One turn is {what}.\nMedian milliseconds, 95th percentile in brackets:\n")
    print(" | ".join(["", "history", *sizes, "largest : smallest", ""]).strip())
    print("|" + "---|" * (len(SIZES) + 2))
    print(row("this package", without))
    print(row("this package, with a file", with_file))
    print(row("transformers, everything again", whole))
    missed = [
        f"{name}: {what}"
        for name, costs in (("without a file", without), ("with a file", with_file))
        for what, is_met in (
            (f"at most {MAX_RATIO:g} times the smallest", costs[-1].median_ms <= MAX_RATIO * costs[0].median_ms),
            (f"at most {MAX_MS:g} ms at {SIZES[-1]:,} tokens", costs[-1].median_ms <= MAX_MS),
        )
        if not is_met
    ]
    print("\n" + ("\n".join(f"Missed, {goal}." for goal in missed) or "Goals met."))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
