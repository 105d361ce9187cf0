"""A conversation killed with SIGKILL in the middle of a reply loses no event, and goes on in a new process."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oasis_harness.conversation import load

pytest.importorskip("mlx.core")


@contextlib.contextmanager
def talking(model: Path, file: Path) -> Iterator[Callable[[int], list[str]]]:
    """Yield a function that lets `file` be continued in a new process and kills that after so many sampled tokens.

    It returns the digests that were announced.
    """
    command = [sys.executable, "-m", "tests.agent.killed", str(model), str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as parent:

        def run_and_kill(n_pieces: int) -> list[str]:
            assert parent.stdin is not None and parent.stdout is not None
            parent.stdin.write("another\n")
            parent.stdin.flush()
            announced: list[str] = []
            pid = 0
            for word, _, value in (line.strip().partition(" ") for line in parent.stdout):
                pid = int(value) if word == "child" else pid
                announced += [value] if word == "tip" else []
                n_pieces -= word == "piece"
                if word == "piece" and n_pieces == 0:
                    os.kill(pid, signal.SIGKILL)
                if word == "ended":
                    assert (int(value), n_pieces <= 0) == (signal.SIGKILL, True), "the process ended by itself"
                    break
            assert announced, "the parent ended by itself"
            return announced

        yield run_and_kill


def kill_repeatedly(model: Path, file: Path, kill_points: list[int]) -> None:
    """After every kill: whole chain, no announced event lost, and the next process begins at exactly that tip."""
    tip = None
    with talking(model, file) as run_and_kill:
        for n_pieces in kill_points:
            announced = run_and_kill(n_pieces)
            assert tip is None or announced[0] == tip.digest
            conversation = load(file)
            conversation.verify()
            digests = [node.digest for node in conversation.nodes()]
            assert set(announced) <= set(digests)
            if tip is not None:
                kept = next(node for node in conversation.nodes() if node.index == tip.index)
                assert (kept.digest, kept.sent, kept.ids) == (tip.digest, tip.sent, tip.ids)
            tip = conversation.tip


@pytest.mark.slow
def test_fifty_random_kill_points_with_a_tiny_model(tmp_path: Path) -> None:
    """Killed after 1 to 30 sampled tokens, fifty times over, in one growing conversation."""
    from tests.embedded.tiny import write_tiny_model

    chance = random.Random(3)
    points = [chance.randint(1, 30) for _ in range(50)]
    kill_repeatedly(write_tiny_model(tmp_path / "llama", "llama"), tmp_path / "c.jsonl", points)


@pytest.mark.slow
@pytest.mark.model
def test_three_kill_points_with_the_real_model(default_model: Path, tmp_path: Path) -> None:
    """The same on the default model."""
    kill_repeatedly(default_model, tmp_path / "c.jsonl", [2, 7, 15])
