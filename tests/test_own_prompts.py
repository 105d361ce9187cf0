"""What this package itself sends, byte for byte: the head of `oasis run` and three conversations, in five dialects.

A byte that moves here is a breaking change: `pytest --oasis-sign "why"` writes it to fixtures/ledger.jsonl.
"""

from pathlib import Path

import pytest

from oasis_harness import Session, Skills, workspace_tools
from oasis_harness.cli.run import SYSTEM
from oasis_harness.guard import perturb_head
from oasis_harness.guard.perturb import ALL
from oasis_harness.guard.plugin.fixture import OasisSnapshot
from oasis_harness.guard.targets.dialects import Given
from tests import own_prompts
from tests.own_prompts import FOLDER, NAMES, TALKS, opened


def given(name: str, session: Session) -> Given:
    """Name the dialects that need no syntax of calls, whose tokens are counted; give the others as they were spoken."""
    return name if (FOLDER / f"{name}.tokenizer.json").exists() else {name: session.dialect}


@pytest.mark.parametrize("name", NAMES)
def test_the_head_of_oasis_run_stands(name: str, tmp_path: Path, oasis_snapshot: OasisSnapshot) -> None:
    """System text, six tools, two skills: what every conversation reads first."""
    session = opened(name, tmp_path)
    oasis_snapshot(session, name="head", dialects=given(name, session))


def test_a_head_without_a_session_is_the_same(tmp_path: Path, oasis_snapshot: OasisSnapshot) -> None:
    """Under the dialects of the project's settings, from the parts alone."""
    oasis_snapshot.head(system=SYSTEM, tools=workspace_tools(tmp_path), skills=Skills.shipped(), name="head")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("talk", TALKS)
def test_a_conversation_stands(talk: str, name: str, tmp_path: Path, oasis_snapshot: OasisSnapshot) -> None:
    """With calls, results in one append, a note, a late tool; the deltas are part of what is signed."""
    session = TALKS[talk](name, tmp_path)
    oasis_snapshot(session, name=talk, dialects=given(name, session))
    assert all(turn.reuse.deficit == 0 for turn in session.turns)


@pytest.mark.slow
def test_another_machine_sends_the_same() -> None:
    """Under another hash seed, home, folder, clock, locale and so on; line ends only where no attribute holds them."""
    target = "tests.own_prompts:{}".format
    assert own_prompts.prompts().keys() == {f"{talk}.{name}" for talk in TALKS for name in NAMES}
    attributed = [one for one in ALL if one.has_crlf]  # .gitattributes keeps the line ends of fixtures/
    others = [one for one in ALL if not one.has_crlf]  # every prompt begins with its head
    reports = [perturb_head(target("prompts"), variations=others), perturb_head(target("head"), variations=attributed)]
    assert [str(report) for report in reports if not report.is_same] == []
