from agent import SYSTEM, run, tools


def reply(content, *paths):
    calls = [{"name": "read_file", "arguments": f'{{"path": "{path}"}}'} for path in paths]
    told = [{"id": call["arguments"], "type": "function", "function": call} for call in calls]
    return {"role": "assistant", "content": content, "reasoning_content": "Look first.", "tool_calls": told}


def test_head(oasis_snapshot):  # against fixtures/prompts/test_head.chatml.prompt
    oasis_snapshot.head(system=SYSTEM, tools=tools)


def test_history(oasis_requests):  # each request extends the one before it
    replies = iter([reply("", "calc.py"), reply("", "notes.md"), reply("It subtracts.")])
    run("What does calc.py do?", lambda body: oasis_requests.append(body) or next(replies))
