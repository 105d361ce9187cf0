"""Test an agent without a model: the replies are a script, the reuse is counted as a real engine would."""

from oasis_harness import Agent, Policy, ScriptedEngine, Session, Tools
from oasis_harness.errors import ReuseDeficit

tools = Tools()


@tools.add
def read_file(path: str) -> str:
    """Read a text file."""
    return "def add(a, b):\n    return a + b\n"


engine = ScriptedEngine(
    [
        '<tool_call>{"name": "read_file", "arguments": {"path": "calc.py"}}</tool_call>',
        "It adds two numbers.",
        "This reply is recorded, but its prompt was read twice.",
    ]
)
session = Session(engine, system="You are a careful engineer.", tools=tools, policy=Policy.RAISE)
agent = Agent(engine, session=session)

for _ in agent.run("What does calc.py do?"):
    pass
called, answered = agent.turns
assert called.calls[0].arguments == {"path": "calc.py"}
assert answered.text == "It adds two numbers."
assert answered.reuse.reused == answered.reuse.expected == called.usage.n_prompt + called.usage.n_sampled

engine.faults.forget = True  # what a cache under memory pressure does
try:
    session.send("Are you sure?")
except ReuseDeficit as error:
    print(f"found: {error}")
else:
    raise AssertionError("an engine that forgot was not noticed")
