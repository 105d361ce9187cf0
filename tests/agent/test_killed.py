"""A conversation killed with SIGKILL in the middle of a reply loses no event, and goes on in a new process."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from oasis_harness.conversation import load

pytest.importorskip("mlx.core")


def run_and_kill(model: Path, file: Path, n_pieces: int) -> list[str]:
    """Let it talk until it has sampled `n_pieces` tokens, kill it, and return the digests it had announced."""
    command = [sys.executable, "-m", "tests.agent.killed", str(model), str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    announced: list[str] = []
    with process:
        for line in process.stdout:
            word, _, digest = line.strip().partition(" ")
            announced += [digest] if word == "tip" else []
            n_pieces -= word == "piece"
            if n_pieces == 0:
                process.kill()
                break
    assert announced, "the process ended by itself"
    return announced


def kill_repeatedly(model: Path, file: Path, kill_points: list[int]) -> None:
    """After every kill: whole chain, no announced event lost, and the next process begins at exactly that tip."""
    tip = None
    for n_pieces in kill_points:
        announced = run_and_kill(model, file, n_pieces)
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
