"""Models of a Hugging Face hub, each held to the revision it was first used at.

    {"mlx-community/Qwen3-4B-Instruct-2507-4bit": "0123456789012345678901234567890123456789"}

is the file `hub.json` of the cache folder. What a name stands for on the hub may change any day, and with it weights
and template of a recorded conversation; `name@revision` is how a person changes it. Nothing is fetched that the
hub's own cache holds whole.
"""

import json
import re
import textwrap
from pathlib import Path

from oasis_harness.canonical import canonical_json
from oasis_harness.errors import BadModel, ModelNotFound
from oasis_harness.panics import without_panics
from oasis_harness.whole_file import read_whole, write_whole

from .folders import cache_folder

__all__ = ["fetch_from_hub", "held_by_hub", "is_branch", "is_hub_id", "remember"]

_ID = r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}"
_HUB_ID = re.compile(rf"({_ID})(?:@(\w(?:[\w-]|[./](?=\w)){{0,127}}))?", re.ASCII)
"""A hub id, and the commit, branch or tag after an `@`."""
_MOST_BYTES = 64 << 20
"""Of a JSON file; the index of the largest models takes 9 MB."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_hub_id(name: str) -> bool:
    """Say whether `name` is written as a hub id, with or without a revision."""
    return _HUB_ID.fullmatch(name) is not None


def is_branch(name: str) -> bool:
    """Say whether a hub id names a revision that may move: a branch or a tag, no commit."""
    revision = _split(name)[1]
    return revision is not None and not _COMMIT.fullmatch(revision)


def held_by_hub(name: str) -> Path | None:
    """Return the folder of a hub model that was fetched before, all of it, at the revision it is held to.

    Raises:
        BadModel: The file of revisions is broken.
    """
    hub_id, revision = _wanted(name)
    try:
        folder = _snapshot(hub_id, revision, offline=True)
    except Exception:  # noqa: BLE001 - however the hub's client says no, the model is not to be had offline
        return None
    return None if _lacking(folder) else folder


def fetch_from_hub(name: str) -> Path:
    """Return the folder of a hub model, fetched at the revision it is held to, the newest where it is held to none.

    Raises:
        ModelNotFound: It cannot be fetched.
        BadModel: Only a part of it is there; also a broken file of revisions.
    """
    hub_id, revision = _wanted(name)
    try:
        folder = _snapshot(hub_id, revision, offline=False)
    except Exception as error:  # the hub's client lets through whatever its network library raises
        cause = textwrap.shorten(str(error), 400).rstrip(".")
        raise ModelNotFound(
            f"{name} could not be fetched from the model hub: {cause}.",
            remedy="Check the name, the network and the proxy settings, or name a folder.",
            name=name,
        ) from error
    lacking = _lacking(folder)
    if lacking:  # without a network the client hands out what an earlier fetch left
        raise BadModel(
            f"{name} lacks {', '.join(lacking)}.",
            remedy="Fetch it again with a network, or use a model that comes with them.",
            name=name,
            lacking=lacking,
        )
    return folder


def remember(name: str, folder: Path) -> str:
    """Hold the hub model `name` to the revision in `folder`; return what a person should know of it, or nothing.

    Raises:
        BadModel: The file of revisions is broken.
    """
    hub_id, _ = _split(name)
    held, commit = _revisions(), folder.name
    if held.get(hub_id) == commit or not _COMMIT.fullmatch(commit):
        return ""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        write_whole(_file(), [canonical_json({**held, hub_id: commit}), b"\n"])
    except OSError as error:
        return f"{hub_id} is used at {commit}, which cannot be remembered: {error}"
    return f"{hub_id} is held to {commit} from now on; {hub_id}@REVISION changes that"


def _split(name: str) -> tuple[str, str | None]:
    parts = _HUB_ID.fullmatch(name)
    assert parts is not None, "only asked of hub ids"
    return parts[1], parts[2]


def _wanted(name: str) -> tuple[str, str | None]:
    """Return a hub id and the revision that is named, else the one it is held to, else None."""
    hub_id, revision = _split(name)
    return hub_id, revision or _revisions().get(hub_id)


def _file() -> Path:
    return cache_folder() / "hub.json"


def _revisions() -> dict[str, str]:
    try:
        held = json.loads(read_whole(_file(), n_most_bytes=_MOST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise _broken(error) from None
    is_whole = isinstance(held, dict) and all(isinstance(one, str) and _COMMIT.fullmatch(one) for one in held.values())
    if not is_whole:
        raise _broken("it is no JSON object of commits")
    return dict(held)


def _broken(cause: object) -> BadModel:
    # Going on without it would take whatever revision is there.
    return BadModel(
        f"{_file()}, which holds hub models to their revisions, cannot be used: {cause}.",
        remedy="Mend it, or remove it to take the revisions that are there now.",
        path=_file(),
    )


def _snapshot(hub_id: str, revision: str | None, *, offline: bool) -> Path:
    from huggingface_hub import snapshot_download

    wanted = ["*.json", "model*.safetensors", "*.jinja", "tokenizer.model"]
    return Path(
        without_panics(
            lambda: snapshot_download(hub_id, revision=revision, local_files_only=offline, allow_patterns=wanted)
        )
    )


def _lacking(folder: Path) -> list[str]:
    """Return the files, sorted, that a whole model would have and `folder` does not."""
    try:
        index = json.loads(read_whole(folder / "model.safetensors.index.json", n_most_bytes=_MOST_BYTES))
        shards = {str(file) for file in index["weight_map"].values()}
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # there is none, or it is broken
        shards = set()
    is_one_file = not shards or (folder / "model.safetensors").is_file()
    wanted = {"config.json", "tokenizer.json"} | ({"model.safetensors"} if is_one_file else shards)
    return sorted(file for file in wanted if not (folder / file).is_file())
