"""`oasis prefix`: what the pytest plugin does, from the command line: show, check, record, sign, log, audit, cost."""

import traceback
from collections.abc import Callable
from pathlib import Path

from oasis_harness.errors import OasisError
from oasis_harness.guard import NotMeasured, Relation, perturb_head
from oasis_harness.guard.review import Bill, Checked, Part, Review, audit_prompts
from oasis_harness.guard.snapshots import Entry
from oasis_harness.panics import without_panics

from .terminal import say, visible

__all__ = ["audit_folder", "check", "cost", "desk_of", "log", "remove", "show", "sign"]

_SAME, _MOVED, _MISSING, _NOT_EVALUATED = 0, 1, 3, 4
_N_SHOWN = 60
_AROUND = 40
"""Bytes shown on each side of one that is explained."""


def check(review: Review, target: str, name: str, *, perturbs: bool) -> int:
    """Compare the prompt of `target` with its snapshots, look for what varies in its head; return the exit code."""
    return _on_target(target, lambda: _checked(review.check(target, name), target, perturbs=perturbs))


def sign(review: Review, target: str, name: str, reason: str | None) -> int:
    """Accept what moved, for a `reason`, or record what is missing where there is none; return the exit code."""
    return _on_target(
        target,
        lambda: _checked(review.check(target, name, records=reason is None, reason=reason), target, perturbs=False),
    )


def remove(review: Review, stem: str, reason: str) -> int:
    """Take away a recorded prompt, for a `reason`; return the exit code."""
    for entry in review.remove(stem, reason):
        say(f"removed: {entry.name}.{entry.dialect} [entry {entry.n}]")
    return _SAME


def show(review: Review, stem: str, offset: int | None) -> int:
    """Print the spans of a recorded prompt, or whose byte `offset` is; return the exit code."""
    try:
        parts = review.show(stem)
    except LookupError as error:
        say(f"oasis: {error}", to_stderr=True)
        return _MISSING
    if offset is None:
        say(f"{'byte':>8} {'bytes':>7} {'tokens':>7}  owner")
        for part in parts:
            say(_row(part))
        return _SAME
    held = next((part for part in parts if part.start <= offset < part.start + part.n_bytes), None)
    if held is None:
        n_bytes = sum(part.n_bytes for part in parts)
        raise OasisError(f"byte {offset} is not in the prompt, which has {n_bytes:,}.", remedy="Count from 0.")
    say("\n".join(_explained(held, offset)))
    return _SAME


def log(review: Review) -> int:
    """Print the ledger, and verify it against the snapshots."""
    entries = review.ledger.entries()
    for entry in entries:
        say("\n".join(_entry(entry)))
    review.ledger.verify(review.prompts.signed())
    say(f"entries: {len(entries):,}, whole; what is recorded is what they sign")
    return _SAME


def audit_folder(fixtures: Path, base: str) -> int:
    """Compare what is recorded with what the commit `base` has; return the exit code."""
    report = audit_prompts(fixtures, base, root=Path.cwd())
    for fault in report.faults:
        say(f"unsigned: {fault}")
    say(f"audited: {report.n_prompts:,} prompts of {base} ({report.digest[:12]}), {len(report.faults):,} unsigned")
    return _MOVED if report.faults else _SAME


def cost(review: Review, target: str, as_skill: str) -> int:
    """Print what each part of a head costs every conversation."""
    return _on_target(target, lambda: _priced(review.bill(target, as_skill)))


def desk_of(fixtures: Path, dialects: list[str] | None, engine: str) -> Review:
    """Return the review on a folder of fixtures."""
    return Review(fixtures, dialects=dialects or (), engine=engine)


def _on_target(target: str, act: Callable[[], int]) -> int:
    """Do what loads and calls foreign code; what that raises is told in one line, and is no pass."""
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise OasisError(f"{target!r} is no target.", remedy="Write module:function or path/to/file.py:function.")
    try:
        return without_panics(act)
    except OasisError:
        raise
    except Exception as error:  # noqa: BLE001 - the target is foreign code
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        say(f"{target}: not evaluated: {type(error).__name__}: {error} ({where})", to_stderr=True)
        return _NOT_EVALUATED


def _checked(checked: Checked, target: str, *, perturbs: bool) -> int:
    if checked.complaints:
        say(checked.complaints)
    for line in checked.summary.report():
        say(line)
    for field, one in checked.varying:
        say(f"varies: {field}, line {one.line}: {one.kind} {one.text!r}: {one.reason}")
    failed, moved = _perturbed(target) if perturbs else (False, False)
    counts = checked.summary.counts
    if counts["not evaluated"] or failed:
        return _NOT_EVALUATED
    if counts["moved"] or counts["extended"] or checked.varying or moved:
        return _MOVED
    return _MISSING if counts["missing"] else _SAME


def _perturbed(target: str) -> tuple[bool, bool]:
    """Render the head elsewhere; say whether that failed, and whether something moved."""
    report = perturb_head(target)
    say(str(report))
    relations = {outcome.relation for outcome in report.outcomes}
    return Relation.FAILED in relations, Relation.MOVED in relations


def _row(part: Part) -> str:
    n_tokens = "-" if part.n_tokens is None else f"{part.n_tokens:,}"
    return f"{part.start:>8,} {part.n_bytes:>7,} {n_tokens:>7}  {visible(part.owner)}  {_begin(part.data)}"


def _begin(data: bytes) -> str:
    words = " ".join(data.decode("utf-8", "replace").split())
    return visible(words if len(words) <= _N_SHOWN else words[:_N_SHOWN] + "…")


def _explained(part: Part, offset: int) -> list[str]:
    at = offset - part.start
    around = part.data[max(0, at - _AROUND) : at].decode("utf-8", "replace")
    after = part.data[at : at + _AROUND].decode("utf-8", "replace")
    known = {"exact": "its own text", "container": "somewhere in it", "scaffold": "no one's text"}[part.resolution]
    return [
        f"byte {offset:,} is {visible(part.owner)}, {known}: byte {at:,} of {part.n_bytes:,}",
        f"  …{visible(around)!r} then {visible(after)!r}",
    ]


def _entry(entry: Entry) -> list[str]:
    lost = "tokens not counted" if entry.n_tokens_lost is None else f"{entry.n_tokens_lost:,} tokens lost"
    each = (entry.cost or {}).get("s_per_conversation")
    spent = f"not measured ({entry.cost_reason})" if each is None else f"{each} s a conversation"
    what = f"byte {entry.n_bytes:,} {visible(entry.span)}" if entry.sha256_old else "recorded"
    return [
        f"{entry.n}  {entry.when}  {entry.name}.{entry.dialect}  {what if entry.sha256_new else 'removed'}",
        f"   {lost}, {visible(spent)}",
        f"   {visible(entry.reason)}  — {visible(entry.who)}",
    ]


def _priced(bill: Bill) -> int:
    say(f"{'tokens':>7} {'bytes':>7} {'s':>9}  part")
    for row in bill.rows:
        seconds = "-" if row.s is None else f"{row.s:.4f}"
        say(f"{row.n_tokens:>7,} {row.n_bytes:>7,} {seconds:>9}  {visible(row.name)}  {visible(row.text)}")
    say(f"{sum(row.n_tokens for row in bill.rows):>7,} tokens in every conversation")
    say(f"seconds {bill.rate}" if isinstance(bill.rate, NotMeasured) else f"at {bill.rate}")
    if bill.trade is not None:
        trade = bill.trade
        skill = f"as a skill {trade.n_as_skill:,} and {trade.n_loaded:,} more when loaded"
        told = f"as tools {trade.n_as_tools:,} tokens, {skill}"
        even = trade.break_even
        say(told if even is None else f"{told}: the skill is cheaper while fewer than {even:.0%} load it")
    return _SAME
