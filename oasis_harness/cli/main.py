"""The commands, and the border where what goes wrong becomes one line and an exit code.

Everything heavy is imported inside the command that needs it, so that `--help` answers at once.
"""

import contextlib
import datetime
import io
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from oasis_harness import embedded
from oasis_harness.errors import ModelNotFound, OasisError
from oasis_harness.panics import without_panics

from .prefix_commands import prefixes
from .terminal import say

__all__ = ["app", "main"]

app = typer.Typer(
    name="oasis",
    help="An agent for local models whose prompt only grows: nothing is ever read twice.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models = typer.Typer(help="List, fetch and find models.", no_args_is_help=True)
app.add_typer(models, name="models")
templates = typer.Typer(help="Look into chat templates.", no_args_is_help=True)
app.add_typer(templates, name="template")
app.add_typer(prefixes, name="prefix")

_GONE, _ERROR, _INTERRUPTED = 1, 2, 130
_EXIT_CODES = (
    "Exit codes: 0 answered, or nothing to do; 1 ended without an answer (no turns left, cut by length, cancelled, "
    "context window full); 2 error; 3 a reuse deficit under --strict; 130 interrupted."
)


def main() -> None:
    """Run the command line; an error is one line and exit code 2, an interrupt 130; a reader that left ends it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = _exit_code()
    try:
        say(end="", flush=True)
    except OSError:  # told already; Python would complain once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _exit_code() -> int:
    try:
        code = _run_app()
        say(end="", flush=True)  # a full disk shows here at the latest
        return code
    except BrokenPipeError:
        return _GONE
    except OasisError as error:
        return _tell(str(error), _ERROR)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _tell(f"{where}{error.strerror or error}", _ERROR)
    except ImportError as error:
        return _tell(f"{error}. Install what is missing with `pip install 'oasis-harness[mlx]'`.", _ERROR)
    except Exception:  # noqa: BLE001 - a defect of ours keeps its traceback, but 1 would mean "ended without an answer"
        say(traceback.format_exc(), end="", to_stderr=True)
        return _ERROR


def _run_app() -> int:
    """Run typer, which ends every command by SystemExit, and an interrupted one by the code 130 without a word."""
    try:
        without_panics(lambda: app(args=_valued(sys.argv[1:])))
    except SystemExit as ending:
        code = int(ending.code or 0)
        return _tell("interrupted", code) if code == _INTERRUPTED else code
    return 0


def _valued(arguments: list[str]) -> list[str]:
    """Give `--strict` its value: typer knows no option that may stand with one or without."""
    n_options = arguments.index("--") if "--" in arguments else len(arguments)
    return ["--strict=warm" if word == "--strict" and n < n_options else word for n, word in enumerate(arguments)]


def _tell(message: str, code: int) -> int:
    with contextlib.suppress(OSError):  # stderr may be what is full
        say(f"oasis: {message}", to_stderr=True)
    return code


def _named(model: str) -> str:
    if not model.strip():
        raise typer.BadParameter("a model has a name.")
    return model


_MODELS = "A hub id such as mlx-community/… (@revision takes another one), a folder (./model), or the default model."
_MODEL = typer.Option(help=_MODELS, callback=_named)
_MODEL_ARGUMENT = typer.Argument(help=_MODELS, callback=_named)


@app.command(epilog=_EXIT_CODES)
def run(
    task: Annotated[
        str | None, typer.Argument(help="What to do; left out, a conversation is gone on with where it stopped.")
    ] = None,
    model: Annotated[str, _MODEL] = embedded.DEFAULT_MODEL,
    workspace: Annotated[Path, typer.Option(help="The folder the tools are confined to.")] = Path(),
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Allow tools to write and to execute without asking.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line instead of text.")] = False,
    max_turns: Annotated[int, typer.Option(min=1, help="Stop after so many turns.")] = 50,
    tool_choice: Annotated[
        str, typer.Option(help="auto, required, none, or required:N (a call in the first N turns, then none).")
    ] = "",
    strict: Annotated[
        str,
        typer.Option(
            "--strict",
            metavar="[=cold]",
            help="Exit with 3 when a turn reused less than it should; =cold: also where the engine began cold.",
        ),
    ] = "",
    conversation: Annotated[
        Path | None, typer.Option(help="Record the conversation in this file; go on with it if it exists.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="The most tokens of one reply.")] = 512,
    skills: Annotated[Path | None, typer.Option(help="A folder of skills to use besides the shipped ones.")] = None,
    reasoning: Annotated[
        str, typer.Option(help="What was thought before a new task, where the template drops it: retain or epoch.")
    ] = "retain",
    sandbox: Annotated[str, typer.Option(help="What confines commands: auto, bubblewrap, landlock or off.")] = "auto",
    network: Annotated[bool, typer.Option("--network", help="Let confined commands reach the network.")] = False,
) -> None:
    """Work on TASK with the tools of a workspace, and show after every turn what was reused."""
    from .run import (
        RunOptions,
        read_reasoning_policy,
        read_sandbox,
        read_strictness,
        read_tool_choice,
        run_task,
    )

    options = RunOptions(
        model=model,
        workspace=workspace,
        allow_all=yes,
        as_json=as_json,
        max_turns=max_turns,
        tool_choice=read_tool_choice(tool_choice),
        strict=read_strictness(strict),
        conversation=conversation,
        max_tokens=max_tokens,
        skills=skills,
        reasoning=read_reasoning_policy(reasoning),
        sandbox=read_sandbox(sandbox),
        has_network=network,
    )
    sys.exit(run_task(task, options))


@app.command()
def doctor(model: Annotated[str, _MODEL] = embedded.DEFAULT_MODEL) -> None:
    """Say what this machine will run on, and how fast its matrix multiply is."""
    from .doctor import examine

    sys.exit(examine(model))


@models.command("list")
def list_models() -> None:
    """List the models in this package's cache."""
    for name, folder in embedded.list_models():
        say(f"{name}\t{folder}")


@models.command("pull")
def pull(model: Annotated[str, _MODEL_ARGUMENT] = embedded.DEFAULT_MODEL) -> None:
    """Fetch a model, so that it can be used offline."""
    from .views import TextView

    embedded.load_blas()
    with contextlib.closing(TextView()) as view:
        folder = embedded.pull_model(model, report=view.report)
    say(str(folder))


@models.command("path")
def path(model: Annotated[str, _MODEL_ARGUMENT] = embedded.DEFAULT_MODEL) -> None:
    """Print the folder of a model that is on this machine."""
    folder = embedded.find_model(model)
    if folder is None:
        raise ModelNotFound(f"{model} is not on this machine.", remedy=f"Fetch it with `oasis models pull {model}`.")
    say(str(folder))


@templates.command(
    "check",
    epilog="Exit codes: 0 a full re-render keeps every prefix; 1 it loses one somewhere, and is driven append-only "
    "here; 2 error; 3 refused; 4 not evaluated (it does not compile, "
    "needs a variable: see --set, or its model's tokenizer cannot be used).",
)
def check_template(
    where: Annotated[str, typer.Argument(metavar="PATH|MODEL", help="A .jinja file, a model folder or a model here.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as one JSON object.")] = False,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: a switch such as enable_thinking=false, or a token.")
    ] = None,
    date: Annotated[str, typer.Option(help="What a template that asks is told, as 2025-01-31.")] = "2025-01-31",
) -> None:
    """Try a chat template and say where re-rendering would lose the prefix, and what is done instead."""
    from .template import check

    sys.exit(check(where, as_json=as_json, settings=_settings(setting or []), date=_date(date)))


def _settings(settings: list[str]) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in settings]
    for name, equals, value in pairs:
        if not name.isidentifier() or not equals:
            raise typer.BadParameter(f"--set takes NAME=VALUE, not {name + equals + value!r}.")
    return {name: value for name, _, value in pairs}


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no date such as 2025-01-31.") from None
