"""The MLX engine: the one room that imports mlx or transformers.

Loads a model, keeps a live cache for every conversation, and counts what it reads. It knows prompts, never events, and
never renders. mlx stands behind a lazy door: importing this room loads none of it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door
from oasis_harness.errors import MissingExtra

from .blas import Blas, load_blas, matmul_gflops
from .models import DEFAULT_MODEL, Report, find_model, is_path, list_models, pull_model

if TYPE_CHECKING:
    from .model_info import call_syntax, read_model_info, settings_template, settings_variables
    from .runtime import MlxEngine

__all__ = [
    "DEFAULT_MODEL",
    "Blas",
    "call_syntax",
    "find_model",
    "list_models",
    "load_blas",
    "matmul_gflops",
    "open_engine",
    "pull_model",
    "read_model_info",
    "settings_template",
    "settings_variables",
]

_MODEL_INFO = frozenset({"call_syntax", "read_model_info", "settings_template", "settings_variables"})
"""What is loaded when it is first used: numpy and the tokenizers come in with it."""


def open_engine(model: str | Path = DEFAULT_MODEL, *, report: Report = lambda doing, share: None) -> "MlxEngine":
    """Load `model`, fetching it when it is not here: the default model's name, a hub id, or a folder.

    A folder is a `Path`, or text that begins as a path does: `./model`, `~/model`. A hub id may name its revision:
    `mlx-community/…@main`; without one it stays at the revision that was used first. `report` hears of every step that
    takes long: what, and how much of it is done.

    Raises:
        ModelNotFound: There is no such model, or no way to fetch it.
        BadModel: The folder cannot be loaded.
        MissingExtra: The package was installed without the extra `mlx`.
        OasisError: `OASIS_BLAS` names a library that cannot be loaded.
    """
    blas = load_blas()
    if not blas.is_fast and not blas.was_asked_for:
        report(f"matrix products will be slow: {blas.reason}", 0.0)
    try:
        from .runtime import MlxEngine
    except ImportError as error:
        raise MissingExtra(
            f"the embedded engine needs {error.name}.", remedy="Install it with `pip install 'oasis-harness[mlx]'`."
        ) from error
    folder = pull_model(model, report=report)
    name = _last_name(Path(model)) if is_path(model) else _last_name(Path(str(model).partition("@")[0]))
    report(f"loading {name} from {folder}", 0.0)
    return MlxEngine(folder, name=name)


def _last_name(model: Path) -> str:
    """Return what a model is called: the last part of its name, or of the folder that `.`, `..` or `~` stands for."""
    return model.expanduser().resolve().name if model.name in ("", "..", "~") else model.name


_, __getattr__, __dir__ = lazy_door(__name__, dict.fromkeys(_MODEL_INFO, ".model_info"))
