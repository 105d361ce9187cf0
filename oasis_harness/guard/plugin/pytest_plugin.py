"""The pytest plugin: prompt snapshots, append-only checks, and what a moved byte costs.

    def test_head(oasis_snapshot):
        oasis_snapshot.head(system=SYSTEM, tools=tools, dialects=["qwen3"])   # fixtures/prompts/test_head.qwen3.prompt

    def test_client(oasis_requests):
        my_agent(on_request=oasis_requests.append)                              # checked when the test ends

    pytest --oasis-record             write the snapshots that are missing
    pytest --oasis-sign "why"         accept those that moved, with an entry in the ledger
    pytest --oasis-complete           fail unless every recorded prompt was compared, also where tests are skipped
    pytest --oasis-base origin/main   that, and fail unless the ledger leads here from what that commit recorded

Loaded with every test run, so it imports pytest and the standard library only; what it needs comes in with the first
test that uses it, and a suite that uses nothing of it runs as without. It fetches nothing and needs no mlx.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..review import RunSummary, is_ci

if TYPE_CHECKING:
    from ..requests import RequestRecorder
    from ..review import Checker
    from .fixture import OasisSnapshot

__all__ = ["assert_append_only", "assert_prefix_stable", "oasis_requests", "oasis_snapshot"]

_FIXTURE = "oasis_snapshot"
_MARKER = "moves_prefix"
_UNUSED = ("error", "warn", "ignore")


class _Run:
    """What one process of a test run knows."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.summary = RunSummary()
        self.folder = config.rootpath / Path(_setting(config, "oasis_fixtures") or "fixtures").expanduser()
        self._checker: Checker | None = None

    @property
    def checker(self) -> "Checker":
        """What compares, records and signs; made for the first test that asks for it."""
        if self._checker is None:
            from ..review import Checker

            self._checker = Checker(
                self.folder,
                self.config.rootpath,
                self.summary,
                dialects=self.config.getini("oasis_dialects"),
                model=_setting(self.config, "oasis_engine"),
                records=self.config.option.oasis_record,
                reason=self.config.option.oasis_sign,
            )
        return self._checker


_RUN = pytest.StashKey[_Run]()
_CUT = pytest.StashKey[bool]()
"""Of a test that ended before its end: failed, skipped or expected to fail."""
_BROKE = pytest.StashKey[bool]()
"""Of a test that recorded requests: whether they break append-only."""
_WATCH = "oasis-watch"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("oasis", "prompt snapshots and append-only checks")
    group.addoption("--oasis-record", action="store_true", help="write the prompt snapshots that are missing")
    group.addoption("--oasis-sign", metavar="REASON", help="accept the prompts that moved, and write why to the ledger")
    group.addoption("--oasis-fixtures", metavar="DIR", help="folder of prompts/, dialects/ and ledger.jsonl")
    group.addoption(
        "--oasis-engine",
        metavar="MODEL",
        help="model that cost is measured on, or none; a folder as --oasis-engine=DIR, else pytest takes it for tests",
    )
    group.addoption("--oasis-complete", action="store_true", help="fail unless every recorded prompt was compared")
    group.addoption(
        "--oasis-base", metavar="REF", help="fail unless the ledger leads from the prompts of this commit to those here"
    )
    group.addoption("--oasis-autouse", action="store_true", help="check in every test that conversations only grow")
    parser.addini("oasis_fixtures", "folder of prompts/, dialects/ and ledger.jsonl", default="fixtures")
    parser.addini("oasis_dialects", "dialects that prompts are compared in", type="args", default=["chatml"])
    parser.addini("oasis_engine", "model that cost is measured on; 'none' measures nothing", default="")
    parser.addini("oasis_autouse", "check in every test that conversations only grow", type="bool", default=False)
    parser.addini("oasis_complete", "fail unless every recorded prompt was compared", type="bool", default=False)
    parser.addini(
        "oasis_unused", "what a snapshot no test asks for is: error (always in CI), warn, ignore", default="warn"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{_MARKER}(reason): this test breaks append-only on purpose; the reason says why it must"
    )
    _refuse_usage(config)
    run = config.stash[_RUN] = _Run(config)
    if (config.option.oasis_autouse or config.getini("oasis_autouse")) and not _is_controller(config):
        from .watch import Watch

        config.pluginmanager.register(Watch(lambda item, faults: _settle(run, item, faults)), _WATCH)


def _refuse_usage(config: pytest.Config) -> None:
    reason, unused = config.option.oasis_sign, config.getini("oasis_unused")
    if unused not in _UNUSED:
        raise pytest.UsageError(f"oasis_unused is {unused!r}; it is one of {', '.join(_UNUSED)}.")
    if reason is not None and not reason.strip():
        raise pytest.UsageError("--oasis-sign has no reason; say why the prompt moved, as the ledger will.")
    names = [
        name for name, given in (("--oasis-record", config.option.oasis_record), ("--oasis-sign", reason)) if given
    ]
    if names and config.option.oasis_base is not None:
        raise pytest.UsageError(f"{names[0]} is refused beside --oasis-base: what proves writes nothing.")
    if names and is_ci():
        raise pytest.UsageError(f"{names[0]} is refused where CI is set: record and sign at your desk, and commit.")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a recorded prompt of the old ending: pytest would run what its text says behind `>>>`."""
    run = config.stash.get(_RUN, None)
    is_text = run is not None and collection_path.suffix == ".txt" and collection_path.parent == run.folder / "prompts"
    return True if is_text and collection_path.with_suffix(".json").exists() else None


@pytest.fixture
def oasis_snapshot(request: pytest.FixtureRequest) -> "OasisSnapshot":
    """Compare a rendered prompt with the snapshot of it in the fixtures: `oasis_snapshot(session, name="head")`."""
    from .fixture import OasisSnapshot

    return OasisSnapshot(request.config.stash[_RUN].checker, request.node.name, request.node.nodeid)


@pytest.fixture
def oasis_requests(request: pytest.FixtureRequest) -> Iterator["RequestRecorder"]:
    """Record the bodies a client sends: `.append(body)`; fail the test at its end unless they only append.

    They are one conversation; one of another has its key, `.append(body, conversation="title")`.
    """
    from ..requests import RequestRecorder

    recorded = RequestRecorder()
    yield recorded
    run, report, item = request.config.stash[_RUN], recorded.report(), request.node
    run.summary.tally.update(requests=len(recorded), conversations=report.n_conversations, declared=report.n_declared)
    item.stash[_BROKE] = bool(report.breaks)
    is_unfinished = item.stash.get(_CUT, False) and not report.breaks  # it may have proved nothing yet
    if report.fault and not _is_excused(item) and not is_unfinished:
        told = recorded.fault(lambda *bodies: run.checker.consequences(*bodies))
        _fail_broken(run, item, told, report.fault)


@pytest.fixture
def assert_append_only() -> Callable[..., None]:
    """Fail unless every request extends the one before it in its conversation, of which there is one unless declared.

    It is `oasis_harness.guard.assert_append_only`.
    """
    from ..requests import assert_append_only

    return assert_append_only


@pytest.fixture
def assert_prefix_stable() -> Callable[..., None]:
    """Fail unless a render function keeps what it wrote before: `oasis_harness.guard.assert_prefix_stable`."""
    from ..requests import assert_prefix_stable

    return assert_prefix_stable


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers(_MARKER):
        reason = mark.kwargs.get("reason")
        if mark.args or set(mark.kwargs) != {"reason"} or not isinstance(reason, str) or not reason.strip():
            pytest.fail(
                f'{_MARKER} needs a reason and nothing else: @pytest.mark.{_MARKER}(reason="why").', pytrace=False
            )


def _is_excused(item: pytest.Item) -> bool:
    return item.get_closest_marker(_MARKER) is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    result = yield
    if _RUN in item.config.stash and not item.config.pluginmanager.has_plugin(_WATCH):
        _settle(item.config.stash[_RUN], item, [])
    return result


def _settle(run: _Run, item: pytest.Item, faults: list[str]) -> None:
    """Fail a test that broke append-only and is not excused, and one that is excused where nothing broke.

    `faults` are those of its conversations; none are known unless every test is watched.
    """
    if not _is_excused(item):
        if faults:
            _fail_broken(run, item, "\n".join(faults))
        return
    run.summary.tally["excused"] += 1
    is_checked = item.config.pluginmanager.has_plugin(_WATCH) or _BROKE in item.stash
    broke = bool(faults) or item.stash.get(_BROKE, False)
    if is_checked and not broke and not item.stash.get(_CUT, False):
        run.summary.add("broken", f"{item.nodeid}: it is excused, and nothing broke there")
        told = f"{_MARKER} excuses this test, and nothing broke there: put it on the test that breaks."
        pytest.fail(told, pytrace=False)


def _fail_broken(run: _Run, item: pytest.Item, fault: str, title: str = "") -> None:
    run.summary.add("broken", f"{item.nodeid}: {title or fault.splitlines()[0]}")
    pytest.fail(
        f"{fault}\nWhat was sent has to stay as it was. A test that must break this says why: "
        f'@pytest.mark.{_MARKER}(reason="why").',
        pytrace=False,
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.excinfo is None:
        return
    item.stash[_CUT] = True
    if _uses_snapshots(item):
        item.config.stash[_RUN].summary.n_cut += 1


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if _uses_snapshots(item) and _RUN in item.config.stash:
            item.config.stash[_RUN].summary.n_cut += 1


def _uses_snapshots(item: pytest.Item) -> bool:
    return _FIXTURE in getattr(item, "fixturenames", ())


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    run = config.stash.get(_RUN, None)
    if run is None:
        return
    if hasattr(config, "workeroutput"):
        config.workeroutput["oasis"] = run.summary.to_json()
        return
    if run.summary.has_failed and session.exitstatus == pytest.ExitCode.OK:
        run.summary.lines.append("the run fails: a test caught what did not pass, or was expected to fail")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    from .ending import judge_end

    judge_end(session, run.folder, run.summary, exitstatus)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    summary: RunSummary = node.config.stash[_RUN].summary
    sent = getattr(node, "workeroutput", {}).get("oasis")
    if sent is None:
        summary.n_cut += 1  # a worker that died took with it what it compared
    else:
        summary.merge(RunSummary.from_json(sent))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    run = config.stash.get(_RUN, None)
    lines = list(run.summary.report()) if run is not None else []
    if lines:
        terminalreporter.section("prompts")
        for line in lines:
            terminalreporter.write_line(line)


def _is_controller(config: pytest.Config) -> bool:
    """Say whether this process only hands tests to xdist's workers."""
    is_distributing = getattr(config.option, "dist", "no") != "no" and bool(getattr(config.option, "tx", None))
    return is_distributing and not hasattr(config, "workerinput")


def _setting(config: pytest.Config, name: str) -> str:
    """Return an option of the command line, or else of the ini file."""
    given = getattr(config.option, name)
    return str(given if given is not None else config.getini(name))
