"""`oasis template check`: a verdict, its exit code, and what a person wants to know."""

import json
import re
from pathlib import Path

import pytest

from oasis_harness.cli.main import main
from tests.embedded.tiny import byte_level_tokenizer, write_tiny_model
from tests.render.templates import CHATML, CHATML_TOOLS, LLAMA
from tests.render.thinkers import THINKING


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]  # a fixture of pytest's
    def run(source: str | None, *words: str, name: str = "x.jinja") -> tuple[int, str]:
        if source is not None:
            (tmp_path / name).write_text(source, encoding="utf-8", newline="")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", ["oasis", "template", "check", name, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out + err

    return run


@pytest.mark.parametrize(
    "source, code, words",
    [
        (CHATML, 0, "x.jinja: class A, a full re-render keeps every prefix"),
        (THINKING, 1, "loses the prefix at a tool result"),
        ("{{ messages[0].content.upper() }}", 3, "x.jinja: refused\nthis chat template cannot be driven"),
        ("{% if %}", 4, "x.jinja: not evaluated\nthe chat template does not compile"),
        ("{{ who }}{{ messages[0].content }}" + CHATML, 0, "class A"),
        ("{{ who.name }}" + CHATML, 4, "'who' is undefined"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}", 4, "not evaluated"),
    ],
)
def test_the_exit_code_is_the_verdict(check, source: str, code: int, words: str) -> None:  # type: ignore[no-untyped-def]
    found, out = check(source)
    assert found == code and words in out


def test_the_report_says_what_breaks_where_and_what_is_done(check) -> None:  # type: ignore[no-untyped-def]
    """The byte, both texts, the bytes that are read again, and the policy."""
    _, out = check(THINKING)
    assert re.search(r"user turn +breaks at byte \d+ of \d+ \(reasoning\), .* bytes are read again", out)
    assert 'sent      "<think>' in out and "What the model thought stays in the prompt (retain)." in out


def test_a_switch_can_be_set_and_one_that_keeps_the_reasoning_is_found(check) -> None:  # type: ignore[no-untyped-def]
    source = THINKING.replace("loop.index0 > last.user and", "(keep_thoughts or loop.index0 > last.user) and")
    code, out = check(source)
    assert code == 1 and "keep_thoughts=true is set" in out
    code, out = check(source, "--set", "keep_thoughts=true", "--json")
    assert json.loads(out)["reasoning_form"]["kept"] == "always"


def test_json_is_the_certificate_and_a_refusal_says_why(check) -> None:  # type: ignore[no-untyped-def]
    code, out = check(CHATML_TOOLS, "--json")
    found = json.loads(out)
    assert code == 0 and (found["letter"], found["verdict"], found["native"]["delta_base"]) == ("A", "extends", "free")
    code, out = check("{{ messages[0].content.upper() }}", "--json")
    assert code == 3 and json.loads(out)["template"] == "x.jinja"
    assert (
        json.loads(out)["reason"] == "it changes or drops what a user types" and json.loads(out)["verdict"] == "refused"
    )


def test_json_and_report_say_how_each_class_is_driven(check) -> None:  # type: ignore[no-untyped-def]
    """Llama's template leaves out the words beside a call, and without tools there are no calls."""
    _, out = check(LLAMA, "--json")
    found = json.loads(out)
    assert found["letters"] == {"with tools": "C", "without tools": "A"} and found["letter"] == "C"
    (broken,) = (one["broken"] for one in found["boundaries"] if one["name"] == "tool result")
    assert broken["mode"] == "with tools"
    _, out = check(LLAMA)
    assert "class C with tools; class A without tools" in out and "with tools: " in out


def test_a_date_is_told_and_nonsense_is_named(check) -> None:  # type: ignore[no-untyped-def]
    _, out = check(LLAMA, "--date", "2024-02-30")
    assert "'2024-02-30' is no date" in out
    _, out = check(LLAMA, "--set", "enable thinking")
    assert "--set takes NAME=VALUE" in out
    code, out = check(LLAMA)
    assert code == 1 and "asks for it; frozen for a conversation" in out


def test_what_is_not_there_is_an_error_of_its_own(check) -> None:  # type: ignore[no-untyped-def]
    code, out = check(None, name="nosuch")
    assert code == 2 and "nosuch is neither a file nor a model on this machine" in out
    code, out = check("{}", name="tokenizer_config.json")
    assert code == 2 and "has no chat_template" in out


def test_what_json_or_unicode_has_no_form_for_is_set_as_text(check) -> None:  # type: ignore[no-untyped-def]
    for value in ("NaN", "1e999", '"\\ud800"', "[" * 20_000 + "]" * 20_000, "\udcff"):
        code, out = check(CHATML, "--set", f"x={value}", "--set", f"bos_token={value}", "--json")
        assert code == 0 and isinstance(json.loads(out)["arguments"]["x"], str)


def test_a_call_ends_at_the_end_token_that_was_set(check) -> None:  # type: ignore[no-untyped-def]
    source = CHATML_TOOLS.replace("{{- '<|im_end|>\\n' }}", "{{- eos_token }}").replace("tool_call>", "made>")
    _, out = check(source, "--set", "eos_token=<|end|>", "--json")
    assert json.loads(out)["native"]["cut"] == {"end": "", "closer": "<|end|>"}


def test_a_named_template_of_a_tokenizer_config_is_found(check) -> None:  # type: ignore[no-untyped-def]
    """As where the model's folder is named: the one for tools, else the default."""
    settings = json.dumps({"chat_template": [{"name": "default", "template": CHATML}]})
    code, out = check(settings, name="tokenizer_config.json")
    assert code == 0 and "class A" in out


@pytest.mark.slow
@pytest.mark.model
def test_the_default_model_extends(check, default_model: Path) -> None:  # type: ignore[no-untyped-def]
    code, out = check(None, name="smollm2-135m-instruct")
    assert code == 0 and "smollm2-135m-instruct: class A" in out
    assert re.search(r"reply, then the next user's words +canonical \(a special token", out)
    assert re.search(r"prompt, then reply +kept as sent, and counted", out)


def test_a_file_called_like_the_default_model_is_not_it(check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The verdict would be of the workspace's template, under the model's name."""
    monkeypatch.setenv("OASIS_CACHE", str(tmp_path / "cache"))
    code, out = check(CHATML, name="smollm2-135m-instruct")
    assert code == 2 and "neither a file nor a model" in out


def test_a_tokenizer_that_cannot_be_used_is_no_verdict(check, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Not evaluated is 4; 1 would say that the template loses a prefix."""
    folder = write_tiny_model(tmp_path / "tiny", "llama")
    content = byte_level_tokenizer()
    content["model"] |= {"continuing_subword_prefix": "##", "merges": [["A", "B"]]}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    code, out = check(None, name="./tiny")
    assert code == 4 and "./tiny: not evaluated\ntokenizer.json cannot be used" in out
    assert json.loads(check(None, "--json", name="./tiny")[1])["verdict"] == "not evaluated"


def test_a_panic_that_nobody_expected_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Wherever a Rust library panics: 2, as for any defect, never 1."""
    import tokenizers

    def panic(*words: object, **options: object) -> None:
        tokenizers.Tokenizer.from_str(
            '{"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"b":1},"continuing_subword_prefix":"##",'
            '"merges":[["a","b"]]}}'
        )

    monkeypatch.setattr("oasis_harness.cli.template.certify_template", panic)
    (tmp_path / "x.jinja").write_text(CHATML)
    monkeypatch.setattr("sys.argv", ["oasis", "template", "check", str(tmp_path / "x.jinja")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
