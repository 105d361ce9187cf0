"""Bring your own loop: the session sends and records, you run the calls."""

import tempfile
from pathlib import Path

from oasis_harness import Session, ToolCall, open_engine, workspace_tools

tools = workspace_tools(Path(__file__).parent)


def execute(call: ToolCall) -> str:
    try:
        return session.tools[call.name].call(call.arguments)
    except Exception as error:  # noqa: BLE001 - a tool is foreign code; the model reads what went wrong
        return f"error: {error}"


with open_engine("smollm2-135m-instruct") as engine, tempfile.TemporaryDirectory() as folder:
    session = Session(engine, system="You are a careful engineer.", tools=tools)
    turn = session.send("Read calc.py.")  # a Turn: text, reasoning, calls, usage, reuse, finish, timing
    turn = session.results({call.id: execute(call) for call in turn.calls})
    print(turn.text, turn.reuse)

    branch = session.fork()  # shares the prefix, copies nothing
    print(branch.send("Read agent.py.").reuse)

    path = Path(folder) / "calc.jsonl"
    session.save(path)
    with Session.load(path, engine, tools=tools) as again:  # byte for byte, token for token
        assert again.conversation.tip == session.conversation.tip
