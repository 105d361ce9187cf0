"""A conversation that is meant to be killed: `python -m tests.agent.killed MODEL FILE`.

For every line it reads, a child continues FILE where it stopped and talks on for ever. It prints `child PID`, then
`tip DIGEST` when the file was opened and after every event, and `piece` for every sampled token, so that a test can
kill it in the middle of a reply; `ended SIGNAL` follows. A child is a fork, which has its imports already.
"""

import itertools
import os
import sys
from pathlib import Path

from oasis_harness import Sampling, Session, open_engine
from oasis_harness.embedded import load_blas

load_blas()
from oasis_harness.embedded import runtime  # noqa: E402, F401 - mlx behind its BLAS; a child finds it loaded


def main(model: str, path: Path) -> None:
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            print("child", os.getpid(), flush=True)
            talk(model, path)
        _, status = os.waitpid(child, 0)
        print("ended", os.WTERMSIG(status), flush=True)


def talk(model: str, path: Path) -> None:
    with open_engine(model) as engine:
        sampling = Sampling(max_tokens=12)
        session = (
            Session.load(path, engine, sampling=sampling)
            if path.exists() and path.stat().st_size
            else Session(engine, system="You answer.", path=path, sampling=sampling)
        )
        say("tip", session)
        steps = session.reply() if session.is_waiting else session.stream("first")
        for number in itertools.count():
            say("tip", session)
            for step in steps:
                print(type(step).__name__.lower(), flush=True)
            say("tip", session)
            steps = session.stream(f"turn {number}")


def say(word: str, session: Session) -> None:
    print(word, session.conversation.tip.digest, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
