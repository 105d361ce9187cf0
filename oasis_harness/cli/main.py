"""The commands. Everything heavy is imported inside the command that needs it, so that `--help` answers at once."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from oasis_harness.errors import OasisError

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

_MODEL = typer.Option(help="A model folder, a hub id such as mlx-community/…, or the small default model.")
_DEFAULT_MODEL = "smollm2-135m-instruct"


def main() -> None:
    """Run the command line; an error of this package is one message and exit code 2, an interrupt 130."""
    try:
        app()
    except OasisError as error:
        print(f"oasis: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("oasis: interrupted", file=sys.stderr)
        sys.exit(130)


@app.command()
def run(
    task: Annotated[
        str | None, typer.Argument(help="What to do; left out, a conversation is gone on with where it stopped.")
    ] = None,
    model: Annotated[str, _MODEL] = _DEFAULT_MODEL,
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
        bool, typer.Option("--strict", help="Exit with 3 when a turn reused less than it should.")
    ] = False,
    conversation: Annotated[
        Path | None, typer.Option(help="Record the conversation in this file; go on with it if it exists.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="The most tokens of one reply.")] = 512,
    skills: Annotated[Path | None, typer.Option(help="A folder of skills to use besides the shipped ones.")] = None,
) -> None:
    """Work on TASK with the tools of a workspace, and show after every turn what was reused."""
    from .run import RunOptions, run_task

    options = RunOptions(
        model=model,
        workspace=workspace,
        allow_all=yes,
        as_json=as_json,
        max_turns=max_turns,
        tool_choice=tool_choice,
        strict=strict,
        conversation=conversation,
        max_tokens=max_tokens,
        skills=skills,
    )
    sys.exit(run_task(task, options))


@app.command()
def doctor(model: Annotated[str, _MODEL] = _DEFAULT_MODEL) -> None:
    """Say what this machine will run on, and how fast its matrix multiply is."""
    from .doctor import examine

    sys.exit(examine(model))


@models.command("list")
def list_models() -> None:
    """List the models in this package's cache."""
    from oasis_harness.embedded import list_models as listed

    for name, folder in listed():
        print(f"{name}\t{folder}")


@models.command("pull")
def pull(model: Annotated[str, typer.Argument(help="A hub id, or the default model.")] = _DEFAULT_MODEL) -> None:
    """Fetch a model, so that it can be used offline."""
    from oasis_harness.embedded import load_blas, pull_model

    from .views import TextView

    load_blas()
    print(pull_model(model, report=TextView().report))


@models.command("path")
def path(
    model: Annotated[str, typer.Argument(help="A folder, a hub id, or the default model.")] = _DEFAULT_MODEL,
) -> None:
    """Print the folder of a model that is on this machine."""
    from oasis_harness.embedded import find_model
    from oasis_harness.errors import ModelNotFound

    folder = find_model(model)
    if folder is None:
        raise ModelNotFound(f"{model} is not on this machine.", remedy=f"Fetch it with `oasis models pull {model}`.")
    print(folder)
