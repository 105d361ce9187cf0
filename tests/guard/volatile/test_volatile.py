"""What varies is found and named; what only looks like it is left alone."""

import datetime
import json
import uuid
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness import Skills, workspace_tools
from oasis_harness.guard import Allowed, Machine, Volatile, find_volatile

ADA = Machine(
    home="/home/ada", temp="/var/scratch/t1", cwd="/home/ada/projects/oasis", host="falcon-7", user="lovelace"
)
NOBODY = Machine()

FOUND = [
    ("Today is 2025-03-04.", Volatile.DATE, "2025-03-04"),
    ("Today's date in ISO format: 2025-03-04", Volatile.DATE, "2025-03-04"),
    ("Date: Monday, 3 March 2025", Volatile.DATE, "Monday, 3 March 2025"),
    ("It is March 3rd, 2025 and", Volatile.DATE, "March 3rd, 2025"),
    ("as of Mar 3, 2025", Volatile.DATE, "Mar 3, 2025"),
    ("on 04/03/2025 we", Volatile.DATE, "04/03/2025"),
    ("Stand 25.12.2025", Volatile.DATE, "25.12.2025"),
    ("Today is Tuesday.", Volatile.DATE, "Tuesday"),
    ('{"description":"Report\\n2025-03-04"}', Volatile.DATE, "2025-03-04"),
    ("now: 2025-03-04T12:34:56Z", Volatile.CLOCK, "2025-03-04T12:34:56Z"),
    ("at 2025-03-04 12:34:56.123456+01:00", Volatile.CLOCK, "2025-03-04 12:34:56.123456+01:00"),
    ("Current time (ISO 8601): 2025-03-04 10:11", Volatile.CLOCK, "2025-03-04 10:11"),
    ("Mon Mar  3 12:34:56 2025", Volatile.CLOCK, "Mon Mar  3 12:34:56 2025"),
    ("Tue, 04 Mar 2025 12:00:00 GMT", Volatile.CLOCK, "Tue, 04 Mar 2025 12:00:00 GMT"),
    ("Started 12:34:56", Volatile.CLOCK, "12:34:56"),
    ("The time is 2:34 pm", Volatile.CLOCK, "2:34 pm"),
    ("Current time: 14:30", Volatile.CLOCK, "14:30"),
    ("timestamp: 1741046400", Volatile.CLOCK, "1741046400"),
    ('"created_at":1741046400123', Volatile.CLOCK, "1741046400123"),
    ("1741046400 seconds since the epoch", Volatile.CLOCK, "1741046400"),
    ("conversation 6f1c9a52-3b7e-4c1d-9f20-8a7b6c5d4e3f", Volatile.UUID, "6f1c9a52-3b7e-4c1d-9f20-8a7b6c5d4e3f"),
    ("default <Store object at 0x7f3a1c2b4d60>", Volatile.ADDRESS, "0x7f3a1c2b4d60"),
    ("default <function f at 0x0000021F3C5A7D90>", Volatile.ADDRESS, "0x0000021F3C5A7D90"),
    ("stored at 0x7f3a1c2b4d60.", Volatile.ADDRESS, "0x7f3a1c2b4d60"),
    ("Files of /home/grace/work.", Volatile.HOME_PATH, "/home/grace/work"),
    ("Root: /Users/grace/src/app, branch", Volatile.HOME_PATH, "/Users/grace/src/app"),
    ("in C:\\Users\\grace\\src now", Volatile.HOME_PATH, "C:\\Users\\grace\\src"),
    ('"C:\\\\Users\\\\grace\\\\src"', Volatile.HOME_PATH, "C:\\\\Users\\\\grace\\\\src"),
    ("log to /tmp/agent-x81/log.txt, then", Volatile.TEMP_PATH, "/tmp/agent-x81/log.txt"),
    ("in /var/folders/zz/zyx/T/tmp1", Volatile.TEMP_PATH, "/var/folders/zz/zyx/T/tmp1"),
    ("C:\\Windows\\Temp\\a1", Volatile.TEMP_PATH, "C:\\Windows\\Temp\\a1"),
    ("scratch: /var/scratch/t1/x", Volatile.TEMP_PATH, "/var/scratch/t1/x"),
    ("You work in /home/ada/projects/oasis.", Volatile.WORKING_DIRECTORY, "/home/ada/projects/oasis"),
    ("e.g. /home/ada/projects/oasis/a.py", Volatile.WORKING_DIRECTORY, "/home/ada/projects/oasis/a.py"),
    ("Running on falcon-7.", Volatile.HOST, "falcon-7"),
    ("User: lovelace", Volatile.USER, "lovelace"),
    ("lovelace@host", Volatile.USER, "lovelace"),
    ("server (pid 4242)", Volatile.PROCESS, "4242"),
    ("It is currently 14:03.", Volatile.CLOCK, "14:03"),
    ("pid=31337", Volatile.PROCESS, "31337"),
    ("This is turn 3 of 20.", Volatile.COUNTER, "turn 3 of 20"),
    ("step 3/10", Volatile.COUNTER, "step 3/10"),
    ("message 12", Volatile.COUNTER, "message 12"),
    ("You are on turn 7.", Volatile.COUNTER, "turn 7"),
    ("5 turns remaining", Volatile.COUNTER, "5 turns remaining"),
    ("HEAD is 4f2a9c81d7e6b5a4f3c2d1e0f9a8b7c6d5e4f3a2", Volatile.GIT_HASH, "4f2a9c81d7e6b5a4f3c2d1e0f9a8b7c6d5e4f3a2"),
    ("commit 9f8e7d6", Volatile.GIT_HASH, "9f8e7d6"),
    ("branch main@3c4d5e6f", Volatile.GIT_HASH, "3c4d5e6f"),
    ("server at http://localhost:54321/x", Volatile.PORT, "54321"),
    ("session 7f3a9b2c1d", Volatile.SESSION_ID, "7f3a9b2c1d"),
    ("https://x.dev/session/k3J9x2Lq0P", Volatile.SESSION_ID, "k3J9x2Lq0P"),
    ('"session_id": "ab12cd34ef"', Volatile.SESSION_ID, "ab12cd34ef"),
]

CLEAN = [
    "A date, e.g. 2024-01-31, or null.",
    "The day to look at, for example Monday, 3 March 2025.",
    "Dates are written in the format 2024-01-31.",
    "Use ISO 8601 dates (2024-12-31) and RFC 3339 timestamps such as 2024-12-31T23:59:59Z.",
    '{"type":"string","format":"date","examples":["2024-01-31","2024-02-29"]}',
    "Call parse_date('2024-02-30') and expect an error.",
    "Set the header api-version: 2023-06-01 on every request.",
    "The model claude-3-5-sonnet-2024-10-22 is not available.",
    "Python 3.11.7 or later, pytest 8.3, Node 20.11.1 and GCC 13.2.",
    "Your knowledge cutoff is 2024-06-01.",
    "You know the world until May 2025.",
    "Read at most 200 lines; a file may have 100000.",
    "Colours are written as #ff8800, #1a2b3c or #fff.",
    "Answer in 3-5 sentences, never more than 1,000 words.",
    "Exit codes 0, 1 and 130 have a meaning.",
    "Edit src/main.py and tests/test_main.py only.",
    "Scripts begin with #!/usr/bin/env python3.",
    "Never write outside the workspace, not even to /tmp or $HOME.",
    "Paths such as ~/notes.txt and /home/user/notes.txt are refused.",
    "Put it under /home/<name>/ or C:\\Users\\<name>\\.",
    "Go back to step 3, then do step 4.",
    "Step 1: read. Step 2: edit. Step 3: run the tests.",
    "Keep 2 of the 3 copies; half of 10 is 5.",
    "The dev server listens on http://localhost:3000 and the API on localhost:8080.",
    "Bind to 127.0.0.1:5432 by default.",
    "The mask is 0xff, the limit 0xFFFFFFFF, the magic number 0xdeadbeef, the base 0x1000.",
    "Addresses of coils run from 0x0000 to 0x270F.",
    "UUIDs look like 123e4567-e89b-12d3-a456-426614174000; the nil one is 00000000-0000-0000-0000-000000000000.",
    "Write commit messages in the imperative, 72 characters a line.",
    "Name the commit, e.g. 9f8e7d6, in the report; see commit abc1234 for the style.",
    "The commit defaced the page; the revision was effaced.",
    "Open one session per user, and close the session afterwards.",
    "A session lasts 30 minutes; a run has a timeout of 00:05:00.",
    "A test takes 1.5 s, the suite 2 min 30 s; the ratio is 16:9.",
    "See line main.c:120:14 for the error.",
    "Two messages:\n#\n1/0",
    "A value is shown as <Field object at 0x0123456789ab>.",
    "Verse 3:16 and chapter 12.",
    "Keep PID 1 alive; tune the PID loop with 3 gains.",
    "The MAC address 00:11:22:33:44:55 belongs to the gateway, fe80::1 to the router.",
    "Licensed under Apache-2.0, copyright 2024-2025.",
    "Numbers such as 1700000000 are printed in full.",
    "Sum 10/12/14 and 1/2/3; scale by 1e-3.",
    "A mark is a point; the root user, an admin or a runner may be anybody.",
]


@pytest.mark.parametrize(("text", "kind", "expected"), FOUND, ids=[text for text, _, _ in FOUND])
def test_what_varies_is_found_once_and_by_its_kind(text: str, kind: Volatile, expected: str) -> None:
    """One finding, the right bytes, a reason for a person."""
    (finding,) = find_volatile(text.encode(), machine=ADA)
    assert (finding.kind, finding.text, bool(finding.reason)) == (kind, expected, True)
    assert text.encode()[finding.start : finding.end].decode() == expected


@pytest.mark.parametrize("text", CLEAN)
def test_a_clean_sentence_does_not_fire(text: str) -> None:
    """Versions, ranges, colours, examples, portable paths and instructions are constant."""
    assert find_volatile(text.encode(), machine=ADA) == ()


def test_the_heads_we_ship_do_not_fire(tmp_path: Path) -> None:
    """Tools and skills, on the machine the test runs on."""
    schemas = [tool.schema for tool in workspace_tools(tmp_path)]
    skills = [*Skills.shipped().lines(), *(skill.body.encode() for skill in Skills.shipped())]
    assert find_volatile(b"\n".join([*schemas, *skills])) == ()


def test_every_kind_has_an_example_that_is_found() -> None:
    """Test of the tests: no kind is announced that nothing finds."""
    assert {kind for _, kind, _ in FOUND} == set(Volatile)


WORDS = st.sampled_from(["the", "größer", "日本語", "agent,", "reads", "(files)", "with", "care.", "", "😀", "Then"])
PROSE = st.lists(WORDS, max_size=12).map(" ".join)
DATES = st.dates(datetime.date(2000, 1, 1), datetime.date(2099, 12, 31))
MOMENTS = st.datetimes(datetime.datetime(2000, 1, 1), datetime.datetime(2099, 12, 31))
THINGS = st.one_of(
    DATES.map(lambda day: (Volatile.DATE, day.isoformat())),
    DATES.map(lambda day: (Volatile.DATE, f"{day.day} {day:%B} {day.year}")),
    MOMENTS.map(lambda moment: (Volatile.CLOCK, moment.isoformat())),
    MOMENTS.map(lambda moment: (Volatile.CLOCK, f"{moment:%H:%M:%S}")),
    MOMENTS.map(lambda moment: (Volatile.CLOCK, f"{moment:%a %b %e %H:%M:%S} {moment.year}")),
    st.integers(0, 2**128 - 1)
    .map(lambda number: str(uuid.UUID(int=number, version=4)))
    .filter(lambda text: len(set(text)) > 6)  # one of few digits is a placeholder
    .map(lambda text: (Volatile.UUID, text)),
    st.from_regex(r"/home/[b-z]{4}[0-9]/[a-z]{1,8}", fullmatch=True).map(lambda path: (Volatile.HOME_PATH, path)),
    st.from_regex(r"/tmp/tmp[a-z0-9_]{8}", fullmatch=True).map(lambda path: (Volatile.TEMP_PATH, path)),
)


@given(before=PROSE, thing=THINGS, after=PROSE)
def test_it_is_found_wherever_it_stands(before: str, thing: tuple[Volatile, str], after: str) -> None:
    """Offsets are those of the bytes, whatever stands around."""
    kind, text = thing
    data = f"{before} {text} {after}".encode()
    start = len(before.encode()) + 1
    found = [(finding.kind, finding.start, finding.end) for finding in find_volatile(data, machine=NOBODY)]
    assert found == [(kind, start, start + len(text))]


@given(thing=THINGS)
def test_it_is_found_in_json_too(thing: tuple[Volatile, str]) -> None:
    """A line end that JSON has escaped is the edge of a word."""
    data = json.dumps({"description": f"Lists.\n{thing[1]}\nSorted."}).encode()
    assert [finding.text for finding in find_volatile(data, machine=NOBODY)] == [thing[1]]


@given(data=st.binary(max_size=200))
def test_any_bytes_can_be_read(data: bytes) -> None:
    """A head need not be UTF-8; what is found never overlaps."""
    found = find_volatile(data, machine=ADA)
    assert all(one.end <= other.start for one, other in pairwise(found))


@given(lines=st.lists(PROSE, max_size=5))
def test_the_line_is_counted_from_one(lines: list[str]) -> None:
    """As editors do."""
    text = "\n".join([*lines, "pid 4242"])
    assert find_volatile(text.encode(), machine=NOBODY)[-1].line == len(lines) + 1


def test_a_constant_hides_what_lies_inside_it_only() -> None:
    """A date frozen for the session is no clock, a clock that begins with that date is one."""
    text = b"Date: 2025-03-04. Log of 2025-03-04T10:00. Due 2025-03-05."
    found = find_volatile(text, constants=["2025-03-04"], machine=NOBODY)
    assert [finding.text for finding in found] == ["2025-03-04T10:00", "2025-03-05"]


@pytest.mark.parametrize("constants", [[""], "2025"])
def test_constants_that_hide_everything_are_refused(constants: list[str] | str) -> None:
    """An empty value, and a text where a collection is meant."""
    with pytest.raises(ValueError, match="constants"):
        find_volatile(b"", constants=constants, machine=NOBODY)


def test_an_allowed_finding_is_left_out_and_others_stay() -> None:
    """Kind and text must both fit."""
    allowed = [Allowed(Volatile.TEMP_PATH, "/tmp/out", "the tool always writes there")]
    found = find_volatile(b"/tmp/out.txt /tmp/in.txt", allowed=allowed, machine=NOBODY)
    assert [finding.text for finding in found] == ["/tmp/in.txt"]
    assert find_volatile(b"pid 42", allowed=[Allowed(Volatile.PORT, "42", "no")], machine=NOBODY)


@pytest.mark.parametrize(("text", "reason"), [("/tmp", ""), ("/tmp", " \n"), ("", "because")])
def test_nothing_is_allowed_without_text_and_reason(text: str, reason: str) -> None:
    """A silenced guard says why."""
    with pytest.raises(ValueError, match=r"has no (reason|text)"):
        Allowed(Volatile.TEMP_PATH, text, reason)


@pytest.mark.parametrize("name", ["root", "ada", "ubuntu", "Runner", "localhost", ""])
def test_a_common_name_is_no_leak(name: str) -> None:
    """Short names and those that stand on every machine are words of any prompt."""
    machine = Machine(host=name, user=name)
    assert find_volatile(f"user: {name}, host: {name}, {name}@here".encode(), machine=machine) == ()


def test_a_name_that_is_a_word_needs_a_reason_to_be_a_name() -> None:
    """Whoever is called Grace may still read of it."""
    machine = Machine(user="grace")
    assert find_volatile(b"Fail with grace; grace period of 5 s.", machine=machine) == ()
    assert [finding.start for finding in find_volatile(b"logged in as grace", machine=machine)] == [13]


def test_a_folder_of_one_level_counts_with_what_lies_in_it() -> None:
    """`/root` and `/app` are words, `/root/.cache` is a path."""
    machine = Machine(home="/root", cwd="/app")
    assert find_volatile(b"Be /root or /app.", machine=machine) == ()
    found = find_volatile(b"/root/.cache and /app/x.py", machine=machine)
    assert [finding.kind for finding in found] == [Volatile.HOME_PATH, Volatile.WORKING_DIRECTORY]


def test_this_machine_is_asked_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory of the process that asks is found."""
    monkeypatch.chdir(tmp_path)
    assert Machine.here().cwd == str(Path.cwd())
    assert [finding.kind for finding in find_volatile(f"in {Path.cwd()}".encode())] == [Volatile.WORKING_DIRECTORY]
