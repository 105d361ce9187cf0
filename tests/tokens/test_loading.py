"""What is read from a `tokenizer.json`: any kind that can be inverted, and no other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from tokenizers import AddedToken, models, pre_tokenizers

from oasis_harness.errors import BadTokenizer, TokenError
from oasis_harness.tokens import Tokenizer, load_tokenizer
from oasis_harness.tokens.alphabet import byte_alphabet
from tests.embedded.tiny import byte_level_tokenizer

from .conftest import Pair, read
from .texts import texts
from .training import byte_level, gemma, gpt2, llama2, sentencepiece, write

Content = dict[str, Any]


def whole(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The ids of typed text."""
    data = text.encode()
    return tokenizer.encode(data, [(0, len(data))])


# SentencePiece


@pytest.mark.slow
@given(text=texts.map(lambda text: text.replace("▁", "").replace("<", "").lstrip()))
def test_sentencepiece_ids_are_those_of_the_library_after_its_leading_space(sentencepiece: Pair, text: str) -> None:
    """The library puts a space before a text's first word; a delta follows other text, and gets none."""
    alone = sentencepiece.library_ids("hello")[:1] == sentencepiece.ours.encode(b"hello")[:1]
    assert sentencepiece.library_ids(text) == whole(sentencepiece.ours, text if alone or not text else f" {text}")


def test_no_space_is_put_before_a_text(sentencepiece: Pair) -> None:
    """Nor taken away."""
    ours = sentencepiece.ours
    assert ours.decode(ours.encode(b"hello")) == b"hello" and ours.decode(ours.encode(b" hello")) == b" hello"
    assert ours.encode(b"hello") != ours.encode(b" hello")


def test_a_typed_stand_in_for_a_space_is_spelled_in_bytes(sentencepiece: Pair) -> None:
    """Its piece means a space; its bytes mean itself."""
    ours = sentencepiece.ours
    assert ours.encode("a▁b".encode()) != ours.encode(b"a b")
    assert [ours.pieces[token] for token in ours.encode("▁".encode())] == [b"\xe2", b"\x96", b"\x81"]


@pytest.mark.parametrize("step", [{}, {"add_prefix_space": True}, {"prepend_scheme": "first", "split": False}])
def test_metaspace_is_read_in_all_its_forms(tmp_path: Path, step: Content) -> None:
    """Older files say `add_prefix_space`, some say nothing, and then it is on."""
    tokenizer = sentencepiece_with({"type": "Metaspace", "replacement": "▁"} | step, tmp_path)
    assert tokenizer.pieces[tokenizer.encode(b"hello")[0]].startswith(b"h")


def sentencepiece_with(pre_tokenizer: Content, folder: Path) -> Tokenizer:
    return load_tokenizer(write(sentencepiece(None, pre_tokenizers.Metaspace()), folder, pre_tokenizer=pre_tokenizer))


@pytest.mark.parametrize("kind", ["NFKC", "Lowercase", "Strip"])
def test_a_normalizer_that_changes_text_is_not_followed(tmp_path: Path, kind: str) -> None:
    """What was recorded is what is encoded."""
    steps = [
        {"type": kind, "strip_left": True, "strip_right": True},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ]
    ours = load_tokenizer(write(llama2(), tmp_path, normalizer={"type": "Sequence", "normalizers": steps}))
    assert ours.decode(whole(ours, " ﬁ HELLO ")) == " ﬁ HELLO ".encode()


# Added tokens


def test_added_tokens_that_merges_lead_to_cannot_be_typed(tmp_path: Path) -> None:
    """They stand in the vocabulary like any piece; their last merge is left out, those before it are not."""
    content = json.loads(gpt2().to_str())
    vocabulary, pairs = content["model"]["vocab"], [["z", "q"], ["zq", "x"], ["zqx", "j"]]
    for left, right in pairs:
        vocabulary[left + right] = len(vocabulary)
    added = [{**content["added_tokens"][0], "content": "zqx", "id": vocabulary["zqx"], "special": False}]
    ours = load_tokenizer(write(gpt2(), tmp_path, vocab=vocabulary, merges=pairs, added_tokens=added))
    assert ours.encode(b"zqx") == (vocabulary["zqx"],)
    assert whole(ours, "zqxj") == (vocabulary["zq"], vocabulary["x"], vocabulary["j"])


def test_runs_of_white_space_are_ordinary_text_though_they_are_added_tokens(tmp_path: Path) -> None:
    """Gemma's new lines and GPT-NeoX's spaces mark nothing, and a model reads code with them."""
    for number, tokenizer in enumerate((gemma(), byte_level())):
        tokenizer.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("        ", normalized=False)])
        (tmp_path / str(number)).mkdir()
        pair = read(write(tokenizer, tmp_path / str(number)))
        text = "a\n\nb        c"
        assert whole(pair.ours, text) == pair.ours.encode(text.encode()) == pair.library_ids(text)
        assert "\n\n" not in pair.ours.specials and tokenizer.token_to_id("\n\n") in whole(pair.ours, text)


def test_an_added_token_of_no_text_is_never_found(tmp_path: Path) -> None:
    """It would be found everywhere."""
    content = json.loads(gpt2().to_str())
    empty = {**content["added_tokens"][0], "content": "", "id": 999}
    ours = load_tokenizer(write(gpt2(), tmp_path, added_tokens=[*content["added_tokens"], empty]))
    assert 999 not in ours.encode(b"abc")


CHANGES: list[Content] = [
    {"truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}},
    {
        "padding": {
            "strategy": {"Fixed": 64},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "<|im_start|>",
        }
    },
    {"dropout": 0.9},
    {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_what_a_file_does_to_whole_texts_is_not_done_to_deltas(tmp_path: Path, change: Content) -> None:
    """No truncation, no padding, no leading space, and no dropout, under which no two calls would agree."""
    (tmp_path / "plain").mkdir()
    plain = load_tokenizer(write(gpt2(), tmp_path / "plain"))
    changed = load_tokenizer(write(gpt2(), tmp_path, **change))
    text = "hello world, def read_file(path)"
    assert whole(changed, text) == whole(plain, text)


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    """One byte more is another tokenizer."""
    path = write(gpt2(), tmp_path)
    first = load_tokenizer(path)
    path.write_bytes(path.read_bytes() + b"\n")
    assert load_tokenizer(path).digest != first.digest and first.digest.startswith("sha256:")


# What cannot be used


def without_bytes(n_bytes: int) -> Content:
    content: Content = json.loads(llama2().to_str())
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = {text: token for text, token in vocabulary.items() if token >= 3 + n_bytes}
    return content


def model(kind: models.Model) -> Content:
    content: Content = json.loads(tokenizers.Tokenizer(kind).to_str())
    return content


def changed(**changes: Any) -> Content:
    content: Content = json.loads(gpt2().to_str())
    for key, value in changes.items():
        (content if key in content else content["model"])[key] = value
    return content


UNUSABLE: dict[str, tuple[Callable[[], object], str]] = {
    "a list": (lambda: [1, 2], "not a JSON object"),
    "no model": (dict, "it has no 'model'"),
    "no vocabulary": (lambda: {"model": {"type": "BPE", "merges": []}}, "it has no 'vocab'"),
    "WordPiece": (lambda: model(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")), "WordPiece"),
    "WordLevel": (lambda: model(models.WordLevel({"a": 0}, unk_token="a")), "WordLevel"),
    "Unigram": (lambda: model(models.Unigram([("a", 0.0)], 0, byte_fallback=True)), "Unigram"),
    "no byte fallback": (lambda: model(models.BPE({"a": 0}, [])), "no byte fallback"),
    "half a byte fallback": (lambda: without_bytes(9), "no byte fallback"),
    "an unknown step": (lambda: changed(pre_tokenizer={"type": "ByteLevel", "add": 1}), "."),
    "a foreign piece": (lambda: changed(vocab={"▁": 0}, merges=[]), "'▁' is not spelled in the byte alphabet"),
    "a negative id": (lambda: changed(vocab={"a": -1}, merges=[]), "."),
    "a merge of nothing": (lambda: changed(merges=[["a", "nowhere"]]), "nowhere"),
    "a bad expression": (
        lambda: changed(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated"}),
        ".",
    ),
    "words end in a suffix": (lambda: changed(end_of_word_suffix="</w>"), "changes ordinary text|."),
    "text is dropped": (
        lambda: changed(pre_tokenizer=dropping()),
        "tokenizer.json changes ordinary text",
    ),
}


def dropping() -> Content:
    split = {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"type": "Sequence", "pretokenizers": [split, level]}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_file_that_cannot_be_used_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    """With the reason, and what to do."""
    make, reason = UNUSABLE[kind]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(make()), "utf-8")
    with pytest.raises(BadTokenizer, match=reason) as error:
        load_tokenizer(path)
    assert "tokenizer.json" in str(error.value) and error.value.remedy.endswith(".")


@pytest.mark.parametrize("data", [b"", b"{", b"not JSON", b"\xff\xfe", b"[" * 100_000, b"null"])
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, data: bytes) -> None:
    """Whatever it is."""
    (tmp_path / "tokenizer.json").write_bytes(data)
    with pytest.raises(BadTokenizer, match=r"tokenizer\.json cannot be used: "):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_a_missing_file_is_refused_with_its_path(tmp_path: Path) -> None:
    """A folder too."""
    with pytest.raises(BadTokenizer, match=r"tokenizer\.json cannot be read: No such file"):
        load_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(BadTokenizer, match="cannot be read: Is a directory"):
        load_tokenizer(tmp_path)


def with_ids(added: dict[Any, Any], **model: Any) -> Content:
    """A byte-level file whose added tokens have these texts and ids, in which parts of the model are others."""
    content = byte_level_tokenizer()
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    content["added_tokens"] = [{"content": text, "id": token, **flags} for text, token in added.items()]
    content["model"] |= model
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (with_ids({"<a>": 4_000_000_000}), "the id of '<a>' is 4000000000, which is not between 0 and 2,097,151"),
        (with_ids({"<a>": -1}), "the id of '<a>' is -1, which is not between"),
        (with_ids({"<a>": 1.5}), "the id of '<a>' is 1.5, which is no whole number"),
        (with_ids({"<a>": True}), "the id of '<a>' is True, which is no whole number"),
        (with_ids({"<a>": "7"}), "the id of '<a>' is '7', which is no whole number"),
        (with_ids({"<a>": None}), "the id of '<a>' is None, which is no whole number"),
        (with_ids({"<a>": 256, "<b>": 256}), "the id 256 is both '<a>' and '<b>'"),
        (with_ids({"<a>": 65}), "the id 65 is both 'A' and '<a>'"),
        (with_ids({"<a>": 256, "<" + "a" * 1_000: 257}), "the added token '<a.*… has more than 1,000 bytes"),
        (with_ids({}, vocab=byte_alphabet() | {"AB": 65}), "the id 65 is both 'A' and 'AB'"),
        (with_ids({}, vocab=byte_alphabet() | {"AB": 10**9}), "the id of 'AB' is 1000000000, which is not between"),
        (with_ids({}, vocab=byte_alphabet() | {"AB": [1]}), r"the id of 'AB' is \[1\], which is no whole number"),
        (with_ids({}, continuing_subword_prefix="##", merges=[["A", "B"]]), "pieces have a continuing subword prefix"),
        (with_ids({}, merges=[["A", "B"]]), "out of vocabulary"),
    ],
)
def test_odd_ids_and_long_markers_are_refused(tmp_path: Path, content: Content, message: str) -> None:
    """Each would take memory without end, mix up two tokens, or make a Rust library panic."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(BadTokenizer, match=message):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_an_added_token_is_text(tmp_path: Path) -> None:
    """Anything else has no bytes."""
    content = with_ids({"<a>": 256})
    content["added_tokens"][0]["content"] = 7
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(BadTokenizer, match="an added token is no text but int"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_an_expression_the_library_gives_up_on_is_an_error_of_the_text(tmp_path: Path) -> None:
    """It panics while it encodes, which no `except Exception` would have caught."""
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$|."}, "behavior": "Isolated", "invert": False}
    steps = [split, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]
    content = with_ids({}) | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(TokenError, match="retry-limit-in-match"):
        load_tokenizer(tmp_path / "tokenizer.json").encode(b"a" * 60 + b"!")


def test_a_file_that_would_abort_the_process_never_reaches_the_library(tmp_path: Path) -> None:
    """The library cuts pieces by the prefix's length, in the middle of a character, and dies of its own report."""
    vocabulary = {**byte_alphabet(), "éA": 256, "AA": 257}
    content = with_ids({}, vocab=vocabulary, merges=[["A", "éA"]], continuing_subword_prefix="x")
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(BadTokenizer, match="continuing subword prefix"):
        load_tokenizer(tmp_path / "tokenizer.json")
