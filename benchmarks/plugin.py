"""What the pytest plugin costs a suite that uses nothing of it: milliseconds to import, and a share of the run.

A suite of 1,000 tiny tests runs in pairs of fresh processes, with the plugin and without (`-p no:oasis`), the first of
a pair in turn, so that whatever else the machine does falls on both. The ratio is the median over the pairs.

    python benchmarks/plugin.py

Prints a Markdown table. Exit code 1 when a goal is missed.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

N_TESTS, N_PAIRS, N_IMPORTS = 1_000, 7, 9
MAX_IMPORT_MS = 20.0
MAX_RATIO = 1.05
"""A run with the plugin may take so many times what one without takes."""

IMPORT = """
import time, pytest
started = time.perf_counter()
import oasis_harness.guard.plugin.pytest_plugin
print(1e3 * (time.perf_counter() - started))
"""


def import_ms() -> float:
    """Return the milliseconds that importing the plugin adds to pytest's own import, in a fresh process."""
    return float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, check=True).stdout)


def run_s(folder: Path, *words: str) -> float:
    """Run the suite in a process of its own and return the seconds of processor time it took."""
    before = os.times()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *words]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def pairs(folder: Path) -> list[tuple[float, float]]:
    """Return (with, without) of each pair, in seconds; one pair more goes first and is not counted."""
    times = []
    for number in range(N_PAIRS + 1):
        arms: list[tuple[str, ...]] = [(), ("-p", "no:oasis")]
        measured = {arm: run_s(folder, *arm) for arm in (arms if number % 2 else arms[::-1])}
        times.append((measured[arms[0]], measured[arms[1]]))
    return times[1:]


def main() -> int:
    """Measure, print, and say whether the goals are met."""
    ordered = sorted(import_ms() for _ in range(N_IMPORTS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tests = "".join(f"def test_{number}():\n    assert {number} >= 0\n\n" for number in range(N_TESTS))
        (folder / "test_tiny.py").write_text(tests, encoding="utf-8")
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        times = pairs(folder)
    ratios = sorted(one / other for one, other in times)
    ratio = statistics.median(ratios)
    added_us = 1e6 * statistics.median(one - other for one, other in times) / N_TESTS
    print("| | median | least | most | goal |\n|---|---|---|---|---|")
    print(f"| import, ms | {statistics.median(ordered):.1f} | {ordered[0]:.1f} | {ordered[-1]:.1f} | {MAX_IMPORT_MS} |")
    print(f"| {N_TESTS:,} tests, with / without | {ratio:.3f} | {ratios[0]:.3f} | {ratios[-1]:.3f} | {MAX_RATIO} |")
    print(f"\nOf {N_PAIRS} pairs; {added_us:+.0f} µs of processor time a test, import included.")
    return int(ordered[0] > MAX_IMPORT_MS or ratio > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
