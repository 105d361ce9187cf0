"""What reuse saves on a real model: one tool loop, turn by turn, and the same last turn read cold.

The default model is made to call a tool `N_TURNS` times and gets the same result each time. Then the conversation is
loaded into a second session, whose first turn has to read everything: that is what a harness pays that breaks the
prefix. Greedy, so the tokens are the same on every run.

    python benchmarks/turns.py

Prints a Markdown table. Exit code 1 when a token was read twice.
"""

import sys
import tempfile
from pathlib import Path

from overhead import RESULT, SYSTEM, TASK

from oasis_harness import Policy, Sampling, Session, ToolChoice, Turn, open_engine, workspace_tools

N_TURNS = 20
SHOWN = (1, 2, 10, 20)


def main() -> int:
    sampling = Sampling(max_tokens=100, tool_choice=ToolChoice.REQUIRED)
    with tempfile.TemporaryDirectory() as scratch, open_engine() as engine:
        tools = workspace_tools(scratch)
        session = Session(engine, system=SYSTEM, tools=tools, sampling=sampling, policy=Policy.RAISE)
        session.send(TASK)
        while len(session.turns) < N_TURNS:
            saved = Path(scratch) / "conversation.jsonl"
            session.save(saved)
            play(session)
        cold_session = Session.load(saved, engine, tools=tools, sampling=sampling)
        cold = play(cold_session)
    print_table(session.turns, cold)
    n_sent = sum(turn.usage.n_prompt for turn in session.turns)
    n_read = sum(turn.reuse.prefilled for turn in session.turns)
    n_twice = sum(turn.reuse.deficit for turn in session.turns)
    print(f"\n{N_TURNS} prompts of {n_sent:,} tokens together: {n_read:,} were read, {n_twice:,} of them again.")
    return 1 if n_twice else 0


def play(session: Session) -> Turn:
    return session.results({call.id: RESULT for call in session.open_calls})


def print_table(turns: list[Turn], cold: Turn) -> None:
    print("| turn | prompt | reused | read | first token |\n|---|---|---|---|---|")
    shown = [(str(turn.index), turn) for turn in turns if turn.index in SHOWN]
    for name, turn in [*shown, (f"{turns[-1].index}, read cold", cold)]:
        reuse = turn.reuse
        counts = f"{turn.usage.n_prompt:,} | {reuse.reused:,} | {reuse.prefilled:,}"
        print(f"| {name} | {counts} | {turn.timing.first_token_s:.2f} s |")


if __name__ == "__main__":
    sys.exit(main())
