"""Every kind of break against mutants of it: how many are caught, how many are named; and what the check costs.

A sample agent's requests are changed in one small way of each kind, once by hand and then as Hypothesis draws it.
Caught: some pair of requests is reported. Named: every report of that mutant has its kind, from one check only, and
every other check is silent. Two clean controls have to stay silent altogether.

    python benchmarks/kinds.py

Prints Markdown tables. Exit code 1 when a mutant is missed or misnamed, a control is accused, or the goal is missed.
"""

import copy
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

sys.path.insert(0, str(Path(__file__).parent.parent))  # the mutants live with the tests

from oasis_harness.guard import check_requests
from oasis_harness.guard.requests.blocks import Reader
from oasis_harness.guard.requests.changes import change_of
from oasis_harness.guard.requests.kinds import findings
from tests.guard.requests.mutants import DRAWN, Mutant, by_hand, clean, interleaved, tool

N_DRAWN = 50
N_CONVERSATIONS, N_TURNS = 200, 50
MAX_S = 2.0
"""So many conversations of so many turns are checked in so many seconds of the processor, at most."""
N_RUNS = 3


QUIET = settings(
    max_examples=N_DRAWN,
    phases=[Phase.generate],
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@dataclass(slots=True)
class Row:
    """The tally of one kind."""

    kind: str
    n_mutants: int = 0
    n_caught: int = 0
    n_named: int = 0

    def add(self, mutant: Mutant) -> None:
        self.n_mutants += 1
        said = list(names(mutant))
        self.n_caught += bool(said)
        self.n_named += bool(said) and all(kinds == [self.kind] for kinds in said)

    @property
    def is_met(self) -> bool:
        return self.n_mutants == self.n_caught == self.n_named


def names(mutant: Mutant) -> Iterator[list[str]]:
    """Yield what all checks together call each reported break."""
    reader = Reader(is_exact=not isinstance(mutant.requests[0].body, dict))
    reads = [reader.read(request) for request in mutant.requests]
    for pair in check_requests(mutant.requests).breaks:
        if pair.previous is not None:
            yield [str(found.kind) for found in findings(change_of(reads[pair.previous], reads[pair.index]))]


def tally() -> list[Row]:
    """Return one row a kind."""
    rows = []
    for mutant in by_hand():
        row = Row(str(mutant.kind))
        row.add(mutant)
        draw(row, mutant)
        rows.append(row)
    return rows


def draw(row: Row, mutant: Mutant) -> None:
    @QUIET
    @given(DRAWN[mutant.kind])
    def each(drawn: Mutant) -> None:
        row.add(drawn)

    each()


def recorded() -> list[dict[str, Any]]:
    """Return the bodies of many conversations that take turns: ten tools, a call and a result a turn."""
    tools = [tool(f"tool_{index}") for index in range(10)]
    system = {"role": "system", "content": "You are a careful engineer. " * 20}
    histories: list[list[dict[str, Any]]] = [
        [system, {"role": "user", "content": f"Task {number}: repair the report."}] for number in range(N_CONVERSATIONS)
    ]
    bodies = []
    for turn in range(N_TURNS):
        for number, history in enumerate(histories):
            bodies.append({"model": "small-1", "tools": tools, "messages": list(history)})
            call_id = f"call_{number}_{turn}"
            call = {"name": "tool_1", "arguments": json.dumps({"path": f"src/{turn}.py"})}
            said = {"id": call_id, "type": "function", "function": call}
            history.append({"role": "assistant", "content": "", "tool_calls": [said]})
            history.append({"role": "tool", "tool_call_id": call_id, "content": f"line {turn} of the file\n" * 10})
    return bodies


def cost_s(requests: list[Any]) -> float:
    """Return the best of a few runs, in seconds of the processor: others may use the machine too."""
    times_s = []
    for _ in range(N_RUNS):
        started = time.process_time()
        report = check_requests(requests)
        times_s.append(time.process_time() - started)
        assert not report.breaks and report.n_conversations == N_CONVERSATIONS, report
    return min(times_s)


def main() -> int:
    rows = tally()
    print("| kind | mutants | caught | named |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.kind} | {row.n_mutants} | {row.n_caught} | {row.n_named} |")
    controls = {"one conversation": clean(), "several, interleaved, without ids": interleaved()}
    accused = {name: len(check_requests(requests).breaks) for name, requests in controls.items()}
    print("\n| control | breaks |\n|---|---|\n" + "\n".join(f"| {name} | {n} |" for name, n in accused.items()))
    bodies = recorded()
    encoded = [json.dumps(body).encode() for body in bodies]
    forms: dict[str, list[Any]] = {"mappings that share messages": bodies, "JSON": encoded, "copies": []}
    print(f"\n{N_CONVERSATIONS} conversations of {N_TURNS} turns, {sum(map(len, encoded)) / 1e6:.0f} MB of JSON:\n")
    print("| given as | processor seconds |\n|---|---|")
    times_s = {}
    for name, form in forms.items():
        times_s[name] = cost_s(form or [copy.deepcopy(body) for body in bodies])
        print(f"| {name} | {times_s[name]:.2f} |")
    is_met = all(row.is_met for row in rows) and not any(accused.values()) and max(times_s.values()) <= MAX_S
    print("\n" + ("Goals met." if is_met else "Goals missed."))
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
