"""Bring your own loop: a session sends and records, you run the calls."""

import tempfile
from pathlib import Path

from oasis_harness import Session, ToolCall, Tools, open_engine

tools = Tools()


@tools.add
def count_lines(path: str) -> str:
    """Count the lines of a text file."""
    n_lines = len((Path(__file__).parent / Path(path).name).read_text(encoding="utf-8").splitlines())
    return f"{path} has {n_lines} lines."


def execute(call: ToolCall) -> str:
    """Run one call; what goes wrong is told to the model."""
    try:
        return tools.get(call.name).call(call.arguments)  # type: ignore[union-attr]  # a name not found is caught too
    except Exception as error:
        return f"error: {error}"


with open_engine("smollm2-135m-instruct") as engine, tempfile.TemporaryDirectory() as folder:
    session = Session(engine, system="You are a careful engineer.", tools=tools)
    turn = session.send("How many lines has own_loop.py?", tool_choice="required")
    turn = session.results({call.id: execute(call) for call in turn.calls}, tool_choice="none")
    print(turn.text)
    print(turn.reuse)

    branch = session.fork()  # shares the prefix, costs nothing
    print(branch.send("Is that many?", tool_choice="none").reuse)

    path = Path(folder) / "lines.jsonl"
    session.save(path)
    with Session.load(path, engine, tools=tools) as again:  # byte for byte and token for token the same
        assert (again.conversation.ids == session.conversation.ids).all()
