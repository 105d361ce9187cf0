"""Nothing that a file, a model or a tool says steers the terminal, whichever way it gets there."""

import ast
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oasis_harness
from oasis_harness.cli.main import main
from oasis_harness.cli.terminal import Terminal, say, say_json, visible
from tests.embedded.tiny import write_tiny_model

from .test_cli import oasis

CLI = Path(oasis_harness.__file__).parent / "cli"
CLIPBOARD = "\x1b]52;c;cm0gLXJmIH4=\x07"
"""OSC 52: most terminals put what it says into the clipboard."""
SPELLED = "\\x1b]52;c;cm0gLXJmIH4=\\x07"


def _steers(char: str) -> bool:
    """Say by Unicode's own tables whether a character steers or hides; the joiners belong to words and emoji."""
    category = unicodedata.category(char)
    is_direction = unicodedata.bidirectional(char) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return (
        (category == "Cc" and char not in "\n\t")
        or category in ("Zl", "Zp")
        or is_direction
        or char in "\u200e\u200f\u061c\ufeff"
        or 0xE0000 <= ord(char) < 0xE0080
    )


def test_every_character_that_steers_is_spelled_out() -> None:
    """All of Unicode's: controls, directions, separators, tags."""
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    assert [char for char in characters if _steers(char) and visible(char) == char] == []


@given(st.text())
def test_what_is_visible_stays_and_twice_is_once(text: str) -> None:
    """Letters of any script stay, the joiners of Persian and of families among them."""
    assert visible(visible(text)) == visible(text) and not any(map(_steers, visible(text)))
    if text.isprintable():
        assert visible(text) == text


def test_each_width_has_its_spelling() -> None:
    """As Python would write them."""
    assert visible("\x07\u202e\U000e0041 می‌خواهم 👩‍👩‍👧\n\t") == "\\x07\\u202e\\U000e0041 می‌خواهم 👩‍👩‍👧\n\t"


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    """What steers stands in JSON's own escapes, and is read back as it was."""
    said = {"x": CLIPBOARD + "\x9b\u202e\u2028\U000e0041é漢"}
    say_json(said)
    out = capsys.readouterr().out
    assert json.loads(out) == said and not any(map(_steers, out)) and "é漢" in out


def test_styles_and_tables_hold_nothing_that_steers(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich strips a few controls, not this one."""
    Terminal().line(CLIPBOARD, "dim")
    Terminal(is_stderr=True).line(CLIPBOARD, "dim")
    Terminal().table([CLIPBOARD], [[CLIPBOARD]])
    say(CLIPBOARD, to_stderr=True)
    out, err = capsys.readouterr()
    assert out.count(SPELLED) == 3 and err.count(SPELLED) == 2 and "\x1b" not in out + err


def writes(source: str) -> list[int]:
    """Return the lines on which `source` could write to the terminal by itself."""
    return sorted({line for node in ast.walk(ast.parse(source)) for line in _write(node)})


def _write(node: ast.AST) -> Iterator[int]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
    if isinstance(node, ast.Import | ast.ImportFrom) and {"Console", "rich.console", "echo", "secho", "pprint"} & {
        *names
    }:
        yield node.lineno
    if isinstance(node, ast.Name) and node.id in ("print", "pprint"):
        yield node.lineno
    if isinstance(node, ast.Attribute) and node.attr in (
        *("print", "print_exc", "print_exception", "print_json", "pprint", "write", "writelines", "echo", "secho"),
        *("log", "confirm", "prompt", "Console"),
    ):
        yield node.lineno
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "input" and node.args:
        yield node.lineno


def test_one_module_writes_to_the_terminal() -> None:
    """What makes text visible is called once; another way out would be a way around it."""
    assert {path.name for path in CLI.glob("*.py") if writes(path.read_text("utf-8"))} == {"terminal.py"}


@pytest.mark.parametrize(
    "source",
    [
        "print(1)",
        "show = print",
        "sys.stderr.write('x')",
        "from rich.console import Console",
        "import rich\nrich.print('x')",
        "traceback.print_exc()",
        "typer.echo('x')",
        "import typer\ntyper.confirm('x')",
        "input('sure?')",
    ],
)
def test_another_way_out_is_found(source: str) -> None:
    """However it is spelled."""
    assert writes(source)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]  # a fixture of pytest's
    def run(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["oasis", *words])
        with pytest.raises(SystemExit):
            main()
        out, err = capsys.readouterr()
        assert not any(map(_steers, out + err))
        return out + err

    return run


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_what_a_template_raises_is_spelled_out(run, tmp_path: Path, words: list[str]) -> None:  # type: ignore[no-untyped-def]
    """Its own words, in the report and in JSON."""
    path = tmp_path / "x.jinja"
    path.write_text("{{ raise_exception(" + json.dumps(CLIPBOARD + "\u202e\x9b") + ") }}")
    out = run("template", "check", str(path), *words)
    assert "refused" in out and ("\\u001b]52" if words else "\\x1b]52") in out


def test_what_a_template_writes_is_spelled_out(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The report quotes what opens a reply."""
    path = tmp_path / "x.jinja"
    path.write_text(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>\u202e\u009b{% endif %}"
    )
    assert "\\u202e\\x9b" in run("template", "check", str(path))


@pytest.mark.parametrize(
    "words", [["models", "path"], ["models", "pull"], ["run", "x", "--model"], ["template", "check"]]
)
def test_the_name_of_a_model_is_spelled_out(run, words: list[str]) -> None:  # type: ignore[no-untyped-def]
    """The error border says what was asked for."""
    assert "52;c;cm0gLXJmIH4=" in run(*words, CLIPBOARD)


def test_the_folder_of_a_model_is_spelled_out(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """So do reports and results."""
    folder = write_tiny_model(tmp_path / f"x{CLIPBOARD.replace('/', '')}", "llama")
    assert SPELLED in run("models", "path", str(folder))
    words = ["--tool-choice", "none", "--max-tokens", "2", "--conversation", str(tmp_path / "c.jsonl")]
    assert f"loading x{SPELLED} from" in run("run", "x", "--model", str(folder), *words)


def test_the_name_of_a_skill_is_spelled_out(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Its folder's name stands in the error as it lies on the disk."""
    model = write_tiny_model(tmp_path / "tiny", "llama")
    (tmp_path / "skills" / f"x{CLIPBOARD}").mkdir(parents=True)
    words = ["--model", str(model), "--workspace", str(tmp_path), "--skills", str(tmp_path / "skills")]
    assert SPELLED in run("run", "x", *words)


def test_a_defect_is_told_without_steering(run, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """A traceback ends with what was raised, in the words of whoever raised it."""

    def broken() -> None:
        raise ValueError(CLIPBOARD)

    monkeypatch.setattr("oasis_harness.embedded.list_models", broken)
    assert f"ValueError: {SPELLED}" in run("models", "list")


@pytest.mark.slow
def test_a_process_of_its_own_is_no_different(tmp_path: Path) -> None:
    """The whole command, from the shell."""
    path = tmp_path / "x.jinja"
    path.write_text("{{ raise_exception(" + json.dumps(CLIPBOARD) + ") }}")
    done = oasis("template", "check", str(path))
    assert done.returncode == 3 and SPELLED in done.stdout and "\x1b" not in done.stdout + done.stderr
