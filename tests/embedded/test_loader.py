"""What a model folder must hold, and what is read out of it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from oasis_harness.embedded import worker
from oasis_harness.embedded.loader import load_folder
from oasis_harness.embedded.model_info import call_syntax
from oasis_harness.embedded.runtime import MlxEngine
from oasis_harness.engine import ModelInfo
from oasis_harness.errors import BadModel, BadTokenizer, OasisError
from oasis_harness.tokens import byte_tokenizer

from .tiny import CHATML, write_tiny_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "llama", "llama")


def model_info(folder: Path) -> ModelInfo:
    return worker.run(lambda: load_folder(folder, "tiny")).model_info


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **fields}))


def pipe(path: Path) -> None:
    """Put a pipe that nobody writes into where a file was."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    """Let the name lead to a device that never ends."""
    path.unlink()
    path.symlink_to("/dev/zero")


def test_the_card_says_what_a_harness_must_know(folder: Path) -> None:
    """Name, window, template, stop ids from every place they are written."""
    change(folder / "generation_config.json", eos_token_id=[256, 258])
    found = model_info(folder)
    assert (found.name, found.n_context, found.chat_template) == ("tiny", 4096, CHATML)
    assert found.stop_ids == {256, 257, 258}
    assert found.template_variables == {"eos_token": "<|im_end|>"}
    assert found.call_syntax is None
    assert found.opens_calls is True
    change(folder / "oasis.json", opens_calls=False)
    assert model_info(folder).opens_calls is False


def test_a_template_file_wins_and_a_list_gives_its_tool_template(folder: Path) -> None:
    """`chat_template.jinja`, then `tool_use` of a list, then `default`."""
    named = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]
    change(folder / "tokenizer_config.json", chat_template=named)
    assert model_info(folder).chat_template == "T"
    change(folder / "tokenizer_config.json", chat_template=named[:1])
    assert model_info(folder).chat_template == "D"
    (folder / "chat_template.jinja").write_bytes(b"F\r\n")
    assert model_info(folder).chat_template == "F\r\n"


def test_special_tokens_written_as_objects_are_read(folder: Path) -> None:
    """tokenizer_config.json has both forms."""
    change(folder / "tokenizer_config.json", bos_token={"content": "<|im_start|>", "special": True}, pad_token=None)
    assert model_info(folder).template_variables == {"eos_token": "<|im_end|>", "bos_token": "<|im_start|>"}


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), BadTokenizer, "tokenizer.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), BadTokenizer, "tokenizer.json"),
        (lambda folder: (folder / "model.safetensors").unlink(), BadModel, "llama cannot be loaded"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 100), BadModel, "llama cannot be loaded"),
        (lambda folder: change(folder / "config.json", model_type="unheard-of"), BadModel, "unheard-of"),
        (lambda folder: change(folder / "config.json", hidden_size=64), BadModel, "llama cannot be loaded"),
        (lambda folder: change(folder / "tokenizer_config.json", chat_template=None), BadModel, "no chat template"),
        (lambda folder: (folder / "tokenizer_config.json").write_text("["), BadModel, "not JSON"),
        (lambda folder: (folder / "tokenizer_config.json").write_text("[]"), BadModel, "not a JSON object but list"),
        (lambda folder: (folder / "tokenizer_config.json").write_bytes(b"\xff"), BadModel, "not UTF-8"),
        (lambda folder: (folder / "chat_template.jinja").write_bytes(b"\xff"), BadModel, "jinja of llama is not UTF-8"),
        (
            lambda folder: (folder / "config.json").write_text("[]"),
            BadModel,
            "config.json of llama is not a JSON",
        ),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "llama"}'), BadModel, "hidden_size"),
        (lambda folder: change(folder / "tokenizer_config.json", chat_template=[{}]), BadModel, "no chat template"),
        (lambda folder: change(folder / "config.json", max_position_embeddings="9"), BadModel, "context window '9'"),
        (lambda folder: change(folder / "config.json", max_position_embeddings=-1), BadModel, "context window -1"),
        (lambda folder: change(folder / "config.json", max_position_embeddings=1), BadModel, "context window 1,"),
        (lambda folder: change(folder / "config.json", max_position_embeddings=True), BadModel, "context window True"),
        (lambda folder: change(folder / "config.json", max_position_embeddings=float("nan")), BadModel, "window nan"),
        (
            lambda folder: change(folder / "config.json", max_position_embeddings=[0] * 999),
            BadModel,
            "0, 0, 0.*…, which",
        ),
        (
            lambda folder: change(folder / "config.json", num_hidden_layers=1_000_000),
            BadModel,
            "num_hidden_layers 1000000, the most is 1,000",
        ),
        (
            lambda folder: change(folder / "config.json", text_config={"num_hidden_layers": 1e300}),
            BadModel,
            r"num_hidden_layers 1e\+300",
        ),
        (lambda folder: (folder / "config.json").write_text("[" * 200_000), BadModel, "not JSON: maximum recursion"),
        (lambda folder: (folder / "config.json").write_text("9" * 5_000), BadModel, "not JSON: Exceeds the limit"),
        (lambda folder: os.truncate(folder / "config.json", 1 << 40), BadModel, "more than 67,108,864 bytes"),
        (lambda folder: os.truncate(folder / "tokenizer.json", 1 << 40), BadTokenizer, "more than 134,217,728 bytes"),
        *(
            (lambda folder, name=name: pipe(folder / name), error, f"{name}.* no regular file")
            for name, error in {
                "config.json": BadModel,
                "tokenizer.json": BadTokenizer,
                "tokenizer_config.json": BadModel,
                "generation_config.json": BadModel,
                "chat_template.jinja": BadModel,
                "oasis.json": BadModel,
                "hf_quant_config.json": BadModel,
                "model.safetensors": BadModel,
                "model-2.safetensors": BadModel,
            }.items()
        ),
        (lambda folder: device(folder / "config.json"), BadModel, "config.json of llama is not readable: it is no reg"),
    ],
)
def test_a_broken_folder_is_named_with_what_it_lacks(
    folder: Path, spoil: Any, error: type[OasisError], message: str
) -> None:
    """No traceback of somebody else's code, and no wait: what, where, and what to do."""
    spoil(folder)
    with pytest.raises(error, match=message) as raised:
        MlxEngine(folder)
    assert raised.value.remedy and ".. " not in str(raised.value)


def test_an_error_calls_the_model_what_the_user_called_it(tmp_path: Path) -> None:
    """The folder of a hub model is named by a commit, which tells nobody anything."""
    folder = write_tiny_model(tmp_path / "0123abcd", "llama", chat_template=None)
    with pytest.raises(BadModel, match="tiny has no chat template") as raised:
        MlxEngine(folder, name="tiny")
    assert "0123abcd" not in str(raised.value)


@pytest.mark.parametrize("foreign", [-1, 100_000, "x", None, [-1, 259, None]])
def test_a_stop_id_outside_the_vocabulary_is_none(folder: Path, foreign: Any) -> None:
    """It could never be sampled; where no other is named, the model is refused."""
    change(folder / "config.json", eos_token_id=foreign)
    assert model_info(folder).stop_ids == {257}  # the eos_token of the tokenizer's settings
    change(folder / "tokenizer_config.json", eos_token=None)
    with pytest.raises(BadModel, match="tiny names no stop token of its vocabulary"):
        model_info(folder)


def test_the_call_syntax_of_a_family_comes_from_mlx_lm() -> None:
    """A template that writes `<tool_call>` JSON gets its marks and its parser."""
    tokenizer = byte_tokenizer(["<tool_call>", "</tool_call>"])
    syntax = call_syntax("{{ '<tool_call>' + tool_call.name }}", tokenizer.specials)
    assert syntax is not None
    assert (syntax.opener, syntax.closer) == ("<tool_call>", "</tool_call>")
    assert syntax.parse('{"name": "f", "arguments": {}}', []) == {"name": "f", "arguments": {}}
    assert call_syntax(CHATML) is None
