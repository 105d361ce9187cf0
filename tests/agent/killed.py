"""A conversation that is meant to be killed: `python -m tests.agent.killed MODEL FILE`.

Continues FILE where it stopped and talks on for ever. Prints `tip DIGEST` when the file was opened and after every
event, and `piece` for every sampled token, so that a test can kill it in the middle of a reply.
"""

import itertools
import sys
from pathlib import Path

from oasis_harness import Sampling, Session, open_engine


def main(model: str, path: Path) -> None:
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
