"""The worked examples at the head of the modules that judge are what these say of them."""

import json
import re
from typing import Any

import pytest

from oasis_harness.guard import check_requests, classify
from oasis_harness.guard.requests import Request
from oasis_harness.guard.requests import causes_in_history as history
from oasis_harness.guard.requests import causes_in_text as wording
from oasis_harness.guard.requests import threads as forest

ROLES = {"S": "system", "U": "user", "A": "assistant"}


def lines_of(module: Any) -> list[str]:
    return [line.strip() for line in str(module.__doc__).splitlines() if line.startswith("    ")]


def body_of(line: str) -> dict[str, Any]:
    said = re.findall(r'([SUA])"([^"]*)"', line)
    return {"messages": [{"role": ROLES[letter], "content": text} for letter, text in said]}


def said_of(line: str) -> str:
    return re.split(r"\s{2,}", line)[-1]


@pytest.mark.parametrize("line", lines_of(wording))
def test_wording(line: str) -> None:
    """Two texts of one leaf, and what the difference is called."""
    before, after, said = re.split(r"(?<=[\"l])\s{2,}", line)
    system = [{"role": "system", "content": json.loads(text)} for text in (before, after)]
    found = classify(*({"messages": [each, {"role": "user", "content": "Hi."}]} for each in system))
    assert f"{found}" == f"{said}, at messages[0].content"


@pytest.mark.parametrize("line", lines_of(history)[1:])
def test_history(line: str) -> None:
    """What was sent first, and what is in its position."""
    found = classify(body_of(lines_of(history)[0]), body_of(line))
    assert f"{found}".startswith(f"{said_of(line)}, at messages[")


def test_history_beside_the_messages() -> None:
    """Prompts, ids, and how many of them were read again."""
    body = body_of(lines_of(history)[0])
    pairs = {
        "template": (Request(body, prompt=b"<think>Why?</think>Done."), Request(body, prompt=b"Done.")),
        "token": (Request(body, ids=[1, 2, 3, 4]), Request(body, ids=[1, 2, 9, 4, 5])),
        "cache": (Request(body, ids=[1, 2, 3, 4]), Request(body, ids=[1, 2, 3, 4, 5], n_reused=1)),
    }
    for kind, pair in pairs.items():
        assert f"{classify(*pair)}".startswith(f"{kind}: ")


def test_forest() -> None:
    """Which request each follows up, found from nothing but what it says."""
    lines = lines_of(forest)
    pairs = check_requests([body_of(line) for line in lines]).pairs
    words = {"extended": "extends {}", "moved": "moved from {}", "same": "same as {}"}
    for line, pair in zip(lines, pairs, strict=True):
        assert said_of(line).startswith(words.get(pair.relation, "begins ").format(pair.previous)), (line, pair)
