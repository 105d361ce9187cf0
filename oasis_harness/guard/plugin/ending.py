"""What is judged once all tests ran: recorded prompts that none of them compared, and what moved since a base.

Loaded at the end of every run, so it imports pytest and the standard library only, and the rest where it is needed.
"""

from pathlib import Path

import pytest

from ..review import RunSummary, is_ci

__all__ = ["judge_end"]


def judge_end(session: pytest.Session, folder: Path, summary: RunSummary, exitstatus: int) -> None:
    """Fail the run for what its tests left unsaid of the fixtures in `folder`."""
    if session.config.option.oasis_base is not None:
        _audit(session, folder, summary)
    if _is_to_be_complete(session.config):
        _require_all(session, folder, summary)
    elif summary.compared and _is_whole(session, summary, exitstatus):
        _count_unused(session, folder, summary)


def _count_unused(session: pytest.Session, folder: Path, summary: RunSummary) -> None:
    how = "error" if is_ci() else session.config.getini("oasis_unused")
    if how == "ignore":
        return
    names = _unused(folder, summary)
    for name in names:
        summary.add("unused", f'{name} (no test asks for it: `oasis prefix sign --removed {name} --reason "why"`)')
    if names and how == "error":
        _fail(session)


def _is_to_be_complete(config: pytest.Config) -> bool:
    return bool(config.option.oasis_complete or config.getini("oasis_complete") or config.option.oasis_base is not None)


def _audit(session: pytest.Session, folder: Path, summary: RunSummary) -> None:
    """Fail the run unless what is recorded is what the base has, or is signed since."""
    from oasis_harness.errors import OasisError

    from ..review import audit_prompts

    try:
        report = audit_prompts(folder, session.config.option.oasis_base, root=session.config.rootpath)
    except OasisError as error:
        summary.add("not evaluated", f"the base: {error}")
        _fail(session)
    else:
        for fault in report.faults:
            summary.add("unsigned", str(fault))
        if report.faults:
            _fail(session)


def _require_all(session: pytest.Session, folder: Path, summary: RunSummary) -> None:
    """Fail the run unless every recorded prompt was compared, whatever was skipped, deselected or not collected."""
    if session.config.option.collectonly:
        return
    for name in _unused(folder, summary):
        summary.add("not compared", f"{name} (its test was renamed, skipped, deselected or not collected)")
    if summary.counts["not compared"]:
        _fail(session)


def _unused(folder: Path, summary: RunSummary) -> list[str]:
    """Return the recorded prompts, as `name.dialect`, that were not compared."""
    from ..snapshots import SnapshotFolder

    return sorted(set(SnapshotFolder(folder / "prompts").list()) - summary.compared)


def _fail(session: pytest.Session) -> None:
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_whole(session: pytest.Session, summary: RunSummary, exitstatus: int) -> bool:
    """Say whether every snapshot of the suite had its chance to be asked for."""
    config = session.config
    is_cut = summary.n_cut or session.shouldstop or session.shouldfail
    narrows = ("lf", "ignore", "ignore_glob", "collectonly", "continue_on_collection_errors")
    if is_cut or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return False
    if any(getattr(config.option, name, None) for name in narrows):
        return False
    source, sources = config.args_source, pytest.Config.ArgsSource
    if source is not sources.ARGS:
        return source is sources.TESTPATHS or config.invocation_params.dir == config.rootpath
    named = {Path(config.invocation_params.dir, argument) for argument in config.args}
    return config.rootpath in named or named >= {config.rootpath / path for path in config.getini("testpaths") or ["."]}
