"""The main job, on the real default model: several turns, real calls, true results, nothing read twice."""

import json
import random
import string
from pathlib import Path
from typing import Any

import pytest

from oasis_harness.conversation import Reply, ToolResults, load

from .test_cli import oasis


def word(chance: random.Random) -> str:
    return "".join(chance.choices(string.ascii_lowercase, k=7))


def random_workspace(folder: Path, chance: random.Random) -> list[str]:
    folder.mkdir()
    names = [f"{word(chance)}.{chance.choice(('py', 'txt', 'md'))}" for _ in range(4)]
    for name in names:
        (folder / name).write_text(f"{word(chance)} = '{word(chance)}'\n", encoding="utf-8")
    return names


@pytest.mark.slow
@pytest.mark.model
def test_a_random_task_on_random_files_is_worked_on_without_a_deficit(default_model: Path, tmp_path: Path) -> None:
    """At least three replies call a tool; each call has its true result; every turn after the first reuses all."""
    seed = random.SystemRandom().randrange(10**6)  # drawn here: every worker of a parallel run collects the same tests
    print(f"the task and the files are those of seed {seed}")  # shown by pytest where the test fails
    chance = random.Random(seed)
    names = random_workspace(tmp_path / "ws", chance)
    task = f"Find out what {chance.choice(names)} has to do with {chance.choice(names)} and {word(chance)}."
    done = oasis("run", task, "--json", "--strict", "--workspace", "ws", "--conversation", "c.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    turns = [record for record in records if record["type"] == "turn"]
    assert sum(bool(turn["calls"]) for turn in turns) >= 3
    assert all(turn["reuse"]["deficit"] == 0 and turn["reuse"]["reused"] > 0 for turn in turns[1:])
    assert_results_are_true(records, tmp_path)


def assert_results_are_true(records: list[dict[str, Any]], tmp_path: Path) -> None:
    """Run every call that only reads once more, and compare; the log holds the same results."""
    from oasis_harness import Effect, Skills, workspace_tools

    tools = workspace_tools(tmp_path / "ws")
    Skills.shipped().register(tools)
    calls = {record["id"]: record for record in records if record["type"] == "call"}
    results = [record for record in records if record["type"] == "result"]
    assert len(calls) == len(results) >= 3
    for result in results:
        call, tool = calls[result["call_id"]], tools.get(result["name"])
        if tool is not None and tool.effect is Effect.READ and not result["is_error"]:
            assert tool.call(call["arguments"]) == result["content"]
        else:
            assert result["content"].startswith("error: ")
    nodes = list(load(tmp_path / "c.jsonl").nodes())
    recorded = [one for node in nodes if isinstance(node.event, ToolResults) for one in node.event.results]
    assert [one.content.decode() for one in recorded] == [result["content"] for result in results]
    assert sum(b"<tool_call>" in node.event.data for node in nodes if isinstance(node.event, Reply)) >= 3
