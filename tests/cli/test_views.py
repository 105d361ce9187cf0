"""What a view writes, and how it leaves the terminal."""

import pytest

from oasis_harness import embedded
from oasis_harness.agent import CallFinished
from oasis_harness.cli.main import pull
from oasis_harness.cli.terminal import visible
from oasis_harness.cli.views import JsonView, TextView
from oasis_harness.conversation import ToolResult
from oasis_harness.embedded.models import Report
from oasis_harness.engine import Piece, Progress
from oasis_harness.replies import ToolCall

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rich believe in a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")


def test_a_piece_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """No emoji codes, no markup, no expanded tabs; what would steer the terminal is escaped."""
    TextView().show(Piece(0, b":smile: [red]x[/red]\t\x1b[2J\r\xc2\x9b\x07\n"))
    assert capsys.readouterr().out == ":smile: [red]x[/red]\t\\x1b[2J\\x0d\\x9b\\x07\n"


def test_a_result_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """The same for what a tool brought in."""
    call = ToolCall("c1", "read_file")
    TextView().show(CallFinished(call, ToolResult("c1", "read_file", b":smile: [b]\x1b]0;x\x07\nb\x0cc\n")))
    assert capsys.readouterr().out == "  │ :smile: [b]\\x1b]0;x\\x07\n  │ b\\x0cc\n"


def test_only_control_characters_are_escaped() -> None:
    """Letters of any script, newlines and tabs stay."""
    assert visible("é漢🙂\n\t\x00\x7f") == "é漢🙂\n\t\\x00\\x7f"


@pytest.mark.usefixtures("terminal")
def test_a_closed_view_gives_the_cursor_back(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever ended the run under the bar; closing again does nothing."""
    view = TextView()
    view.show(Progress(1, 2))
    view.close()
    view.close()
    JsonView().close()
    err = capsys.readouterr().err
    assert err.count(HIDE) == 1
    assert err.rfind(SHOW) > err.rfind(HIDE)


@pytest.mark.usefixtures("terminal")
def test_an_interrupted_pull_gives_the_cursor_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C half-way through a download."""

    def half(model: str, *, report: Report) -> None:
        report("fetching", 0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr(embedded, "pull_model", half)
    with pytest.raises(KeyboardInterrupt):
        pull("any")
    err = capsys.readouterr().err
    assert HIDE in err
    assert err.rfind(SHOW) > err.rfind(HIDE)
