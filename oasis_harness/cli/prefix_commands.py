"""`oasis prefix`: what can be typed, and what it says of itself; the work is in `prefix`.

Everything heavy is imported inside the command that needs it, so that `--help` answers at once.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["prefixes"]

prefixes = typer.Typer(help="Keep the bytes of prompts: compare, sign, explain, price.", no_args_is_help=True)

_TARGET = typer.Argument(
    metavar="TARGET",
    help="module:function or file.py:function, giving a session, a head or (system, tools, skills).",
)
_NAME = typer.Option(help="What the prompt is recorded as; the function's name if left out.")
_FIXTURES = typer.Option(help="The folder of prompts/, dialects/ and ledger.jsonl.")
_DIALECTS = typer.Option("--dialect", help="A dialect to render in; those it is recorded in if left out.")
_ENGINE = typer.Option(help="The model that cost is measured on; none measures nothing.")
_VERDICTS = (
    "Exit codes: 0 the same bytes; 1 they moved, or something in the head varies; 2 error; 3 nothing is recorded; "
    "4 not evaluated."
)


@prefixes.command("check", epilog=_VERDICTS)
def check_prefix(
    target: Annotated[str, _TARGET],
    name: Annotated[str, _NAME] = "",
    dialect: Annotated[list[str] | None, _DIALECTS] = None,
    fixtures: Annotated[Path, _FIXTURES] = Path("fixtures"),
    engine: Annotated[str, _ENGINE] = "",
    perturb: Annotated[bool, typer.Option("--perturb", help="Render it as on other machines too.")] = False,
) -> None:
    """Compare the prompt of TARGET with what is recorded, and look for what varies in its head."""
    from .prefix import check, desk_of

    sys.exit(check(desk_of(fixtures, dialect, engine), target, name, perturbs=perturb))


@prefixes.command("record", epilog=_VERDICTS)
def record_prefix(
    target: Annotated[str, _TARGET],
    name: Annotated[str, _NAME] = "",
    dialect: Annotated[list[str] | None, _DIALECTS] = None,
    fixtures: Annotated[Path, _FIXTURES] = Path("fixtures"),
) -> None:
    """Record the prompt of TARGET where nothing is recorded yet."""
    from .prefix import desk_of, sign

    sys.exit(sign(desk_of(fixtures, dialect, "none"), target, name, None))


@prefixes.command("sign", epilog=_VERDICTS)
def sign_prefix(
    reason: Annotated[str, typer.Option(help="Why it moves or goes, as the ledger will say.")],
    target: Annotated[str, _TARGET] = "",
    removed: Annotated[
        str, typer.Option(metavar="NAME[.DIALECT]", help="Instead of TARGET: a recorded prompt to take away.")
    ] = "",
    name: Annotated[str, _NAME] = "",
    dialect: Annotated[list[str] | None, _DIALECTS] = None,
    fixtures: Annotated[Path, _FIXTURES] = Path("fixtures"),
    engine: Annotated[str, _ENGINE] = "",
) -> None:
    """Accept the moved prompt of TARGET, or take one away, with an entry in the ledger that says why."""
    from .prefix import desk_of, remove, sign

    if bool(target) == bool(removed):
        raise typer.BadParameter("give a TARGET, or --removed NAME.")
    if removed:
        sys.exit(remove(desk_of(fixtures, dialect, engine), removed, reason))
    sys.exit(sign(desk_of(fixtures, dialect, engine), target, name, reason))


@prefixes.command("show")
def show_prefix(
    name: Annotated[str, typer.Argument(metavar="NAME[.DIALECT]", help="A recorded prompt.")],
    offset: Annotated[int | None, typer.Option(help="Explain this byte, counted from 0.")] = None,
    fixtures: Annotated[Path, _FIXTURES] = Path("fixtures"),
) -> None:
    """Print whose each byte of a recorded prompt is."""
    from .prefix import desk_of, show

    sys.exit(show(desk_of(fixtures, None, "none"), name, offset))


@prefixes.command("log")
def log_prefix(fixtures: Annotated[Path, _FIXTURES] = Path("fixtures")) -> None:
    """Print the ledger of signed moves, and verify it."""
    from .prefix import desk_of, log

    sys.exit(log(desk_of(fixtures, None, "none")))


@prefixes.command("audit", epilog="Exit codes: 0 all is signed; 1 something is not; 2 error, or no such base here.")
def audit_prefix(
    base: Annotated[str, typer.Option(metavar="REF", help="What is agreed to: the branch that a change goes into.")],
    fixtures: Annotated[Path, _FIXTURES] = Path("fixtures"),
) -> None:
    """Prove that no recorded prompt differs from the base's without an entry in the ledger that says why."""
    from .prefix import audit_folder

    sys.exit(audit_folder(fixtures, base))


@prefixes.command("cost")
def cost_prefix(
    target: Annotated[str, _TARGET],
    as_skill: Annotated[str, typer.Option(help="A second TARGET: the same capability as a skill.")] = "",
    dialect: Annotated[str, typer.Option(help="The dialect to count in; the engine's own if left out.")] = "",
    fixtures: Annotated[Path, _FIXTURES] = Path("fixtures"),
    engine: Annotated[str, _ENGINE] = "",
) -> None:
    """Print what each tool, skill and paragraph of a head costs every conversation."""
    from .prefix import cost, desk_of

    sys.exit(cost(desk_of(fixtures, [dialect] if dialect else None, engine), target, as_skill))
