"""Snapshots: the exact bytes of a prompt, and the byte, owner and cause of the first that moved."""

import json
import multiprocessing
import re
import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oasis_harness.conversation import Conversation, Head, Reply, User
from oasis_harness.errors import BadSnapshot, BadSnapshotName, EpochMismatch, NotSignedOff
from oasis_harness.guard import Comparison, Ledger, NotMeasured, Relation, Snapshot, SnapshotFolder, snapshot_of
from oasis_harness.guard.snapshots.moves import Recorded, compare_prompts, rows_of
from oasis_harness.guard.textdiff import Why, escaped, side_by_side, why
from oasis_harness.render import Dialect, Renderer, Resolution, Span
from oasis_harness.sequences import first_difference
from oasis_harness.tokens import byte_tokenizer
from tests.render.families import EXTENDING, REWRITING, VARIABLES, Family
from tests.render.talk import EPOCH, dialect, tool
from tests.render.templates import CHATML, CHATML_TOOLS

FAMILIES = EXTENDING + REWRITING
TOKENS = byte_tokenizer(["<|im_start|>", "<|im_end|>"])
SYSTEM = Dialect.compose(CHATML_TOOLS, variables=VARIABLES)
MARKS = re.compile(r"\[\[(.*)\]\]", re.DOTALL)


def recorded(data: bytes, **fields: object) -> Recorded:
    spans = (Span(0, len(data), "head/system", Resolution.EXACT),) if data else ()
    one = Recorded("head", "chatml", data, rows_of(spans), None, "", None)
    return replace(one, **fields)  # type: ignore[arg-type]


def taken(data: bytes, **fields: object) -> Snapshot:
    spans = (Span(0, len(data), "head/system", Resolution.EXACT),) if data else ()
    return replace(Snapshot("head", "chatml", data, spans), **fields)  # type: ignore[arg-type]


def head(system: str, *tools: str, skills: tuple[bytes, ...] = ()) -> Head:
    return Head(EPOCH, system.encode(), tuple(json.dumps(tool(name)).encode() for name in tools), skills)


def shot(system: str, *tools: str, **more: object) -> Snapshot:
    return snapshot_of(
        head(system, *tools),
        more.pop("dialect", SYSTEM),  # type: ignore[arg-type]
        name="head",
        dialect_name="chatml",
        tokenizer=TOKENS,
        **more,  # type: ignore[arg-type]
    )


def moved(folder: SnapshotFolder, before: Snapshot, after: Snapshot) -> Comparison:
    folder.record(before)
    comparison = folder.compare(after)
    assert comparison.relation is Relation.MOVED and comparison.move is not None
    return comparison


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    return SnapshotFolder(tmp_path / "fixtures" / "prompts")


# Categories


@given(st.binary(max_size=6), st.binary(max_size=6), st.booleans())
def test_every_pair_has_exactly_one_category(old: bytes, new: bytes, is_grown: bool) -> None:
    new = old + new if is_grown else new
    relation = compare_prompts(recorded(old), taken(new)).relation
    expected = {
        Relation.SAME: old == new,
        Relation.EXTENDED: old != new and new[: len(old)] == old,
        Relation.MOVED: new[: len(old)] != old,
    }
    assert [one for one, holds in expected.items() if holds] == [relation]


def test_one_side_alone_is_missing_or_unused() -> None:
    assert compare_prompts(None, taken(b"x")).relation is Relation.MISSING
    assert compare_prompts(recorded(b"x"), None).relation is Relation.UNUSED
    with pytest.raises(ValueError, match="neither"):
        compare_prompts(None, None)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_a_move_names_the_first_byte_that_differs(common: bytes, a: bytes, b: bytes) -> None:
    old, new = common + a, common + b
    move = compare_prompts(recorded(old), taken(new)).move
    if not new.startswith(old):
        assert move is not None
        assert old[: move.n_bytes] == new[: move.n_bytes] and old[move.n_bytes :][:1] != new[move.n_bytes :][:1]
    else:
        assert move is None


@given(st.lists(st.integers(0, 3), max_size=9), st.lists(st.integers(0, 3), max_size=9))
def test_tokens_are_counted_from_the_first_that_differs(old: list[int], new: list[int]) -> None:
    """Not from the one that holds the byte: a merge may reach across it."""
    before = recorded(b"ab", ids=tuple(old), tokenizer="t")
    move = compare_prompts(before, taken(b"ac", ids=tuple(new), tokenizer="t")).move
    assert move is not None and move.n_tokens is not None
    assert old[: move.n_tokens] == new[: move.n_tokens]
    assert old[move.n_tokens :][:1] != new[move.n_tokens :][:1] or old == new
    assert move.n_lost == len(new) - move.n_tokens


def test_another_tokenizer_loses_every_token_and_none_counts_none() -> None:
    other = compare_prompts(recorded(b"ab", ids=(1, 2), tokenizer="a"), taken(b"ac", ids=(1, 3), tokenizer="b")).move
    assert other is not None and (other.n_tokens, other.n_lost) == (0, 2)
    none = compare_prompts(recorded(b"ab"), taken(b"ac", ids=(1, 3), tokenizer="b"))
    assert none.move is not None and (none.move.n_tokens, none.move.n_lost) == (None, None)
    assert "byte 1 moved." in none.report() and "token" not in none.report()


# What a person is shown

_NASTY = [
    "\r",
    "\n",
    "\t",
    " ",
    "\ufeff",
    "\u00a0",
    "\u0301",
    "é",
    "\u200b",
    "∅",
    "␠",
    "\\",
    "\u2028",
    "日",
    "\x00",
    "[[",
]
nasty = st.lists(st.sampled_from(_NASTY) | st.characters(codec="utf-8"), max_size=8).map("".join).map(str.encode)


@given(nasty | st.binary(max_size=8), nasty | st.binary(max_size=8), nasty)
@example(b"a", b"a ", b"")
@example("é".encode(), "e\u0301".encode(), b"")
@example(b"\xe2\x88", "∅".encode(), b"")
def test_two_texts_that_differ_look_different_and_never_blank(old: bytes, new: bytes, around: bytes) -> None:
    if old == new:
        return
    before, after = side_by_side(around + old + around, around + new + around)
    assert before != after
    for text in (before, after):
        marked = MARKS.search(text)
        assert marked and marked[1].strip() and text.isprintable()
        assert not set(marked[1]) & set(" \t\r\n\u00a0\ufeff\u200b\u0301")


@given(st.binary(max_size=30), st.booleans())
def test_an_escaped_text_has_no_invisible_character(data: bytes, spaces: bool) -> None:
    text = escaped(data, spaces=spaces)
    assert all(char == " " or not char.isspace() for char in text) and text.isprintable()
    assert not any(unicodedata.category(char) in ("Cf", "Mn", "Cc") for char in text)
    assert text == text.rstrip(" ")


@given(nasty, nasty)
def test_the_first_difference_is_that_of_a_plain_loop(a: bytes, b: bytes) -> None:
    pairs = enumerate(zip(a, b, strict=False))
    assert first_difference(a, b) == next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))


def test_a_difference_is_cut_at_whole_characters() -> None:
    """Not between the bytes of two letters that end, or begin, alike."""
    assert [MARKS.findall(text) for text in side_by_side("né!".encode(), "nĩ!".encode())] == [["é"], ["ĩ"]]
    assert [MARKS.findall(text) for text in side_by_side("né!".encode(), "nè!".encode())] == [["é"], ["è"]]


CAUSES = {
    "CR line ends": ("Be brief.\nSay so.\n", "Be brief.\r\nSay so.\r\n", Why.CR, "\\r"),
    "old Mac line ends": ("Be brief.\nSay so.", "Be brief.\rSay so.", Why.CR, "\\r"),
    "a byte order mark": ("Be brief.", "\ufeffBe brief.", Why.BOM, "\\ufeff"),
    "a decomposed letter": ("Café au lait", "Cafe\u0301 au lait", Why.UNICODE_FORM, "e\\u0301"),
    "a composed letter": ("Cafe\u0301 au lait", "Café au lait", Why.UNICODE_FORM, "é"),
    "a trailing space": ("Be brief.\nSay so.", "Be brief. \nSay so.", Why.TRAILING_SPACE, "␠"),
    "a trailing space before CRLF": ("Be brief.\r\nSo.", "Be brief. \r\nSo.", Why.TRAILING_SPACE, "␠"),
    "a lost trailing tab": ("Be brief.\t\nSay so.", "Be brief.\nSay so.", Why.TRAILING_SPACE, "∅"),
    "a trailing space at the end": ("Be brief.", "Be brief. ", Why.TRAILING_SPACE, "␠"),
    "a final newline": ("Be brief.", "Be brief.\n", Why.FINAL_NEWLINE, "\\n"),
    "a second final newline": ("Be brief.\n", "Be brief.\n\n", Why.FINAL_NEWLINE, "\\n"),
    "a lost final newline": ("Be brief.\n", "Be brief.", Why.FINAL_NEWLINE, "∅"),
    "a blank line": ("One.\nTwo.", "One.\n\nTwo.", Why.WHITE_SPACE, "\\n"),
    "an indent": ("if:\n  x", "if:\n    x", Why.WHITE_SPACE, "␠␠"),
    "a no-break space": ("Be brief.", "Be\u00a0brief.", Why.WHITE_SPACE, "\\u00a0"),
    "a word": ("Be brief.", "Be verbose.", Why.CONTENT, "verbose"),
    "a word and white space": ("Be brief. \nNow.", "Be brief!\nNow.", Why.CONTENT, "!"),
}
"""What editors, checkouts and people do to a system text: before, after, the cause, and how it is shown."""


@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_is_named_and_shown(folder: SnapshotFolder, cause: str) -> None:
    """In a template that trims nothing."""
    before, after, expected, sign = CAUSES[cause]
    plain = Dialect.compose(CHATML, variables=VARIABLES)
    comparison = moved(folder, shot(before, dialect=plain), shot(after, dialect=plain))
    assert comparison.move is not None and comparison.move.why is expected
    marked = MARKS.search(comparison.move.after)
    assert marked and sign in marked[1]
    assert f"  why     {expected}" in comparison.report().splitlines()


def test_a_mechanical_cause_is_not_seen_in_a_change_of_words() -> None:
    assert why(b"a\nb", b"a\rc") is None
    assert why("Café".encode(), "Cafe\u0301s".encode()) is None
    assert why(b"a b", b"a  c") is None


def test_a_changed_template_is_the_cause_where_no_text_is() -> None:
    before, after = recorded(b"<a>x", template="1"), taken(b"<b>x", template="2")
    rows = ((0, 3, "template", "scaffold"), (3, 4, "head/system", "exact"))
    spans = tuple(Span(start, end, name, Resolution(how)) for start, end, name, how in rows)
    for template, data, cause in (
        ("2", b"<b>x", Why.TEMPLATE),
        ("1", b"<b>x", Why.CONTENT),
        ("2", b"<a>y", Why.CONTENT),
    ):
        new = replace(after, data=data, spans=spans, template=template)
        move = compare_prompts(replace(before, rows=rows), new).move
        assert move is not None and move.why is cause


def test_tools_in_another_order_are_told_so() -> None:
    one, other = shot("Be brief.", "alpha", "beta"), shot("Be brief.", "beta", "alpha")
    move = compare_prompts(recorded(one.data, rows=rows_of(one.spans)), other).move
    assert move is not None and move.why is Why.ORDER
    assert (move.old_span, move.span) == ("head/tool[alpha].name", "head/tool[beta].name")


def test_a_report_names_byte_token_owner_texts_and_source(folder: SnapshotFolder) -> None:
    sources = {"head/system": "agent.py:7"}
    text = moved(folder, shot("Be brief."), shot("Be brisk.", sources=sources)).report()
    assert text == (
        "head.chatml: byte 25 moved, token 14 of 25: 11 are read again.\n"
        "  where   head/system (agent.py:7)\n"
        "  why     content\n"
        "  before  <|im_start|>system\\nBe bri[[ef]].<|im_end|>\\n<|im_start|>…\n"
        "  after   <|im_start|>system\\nBe bri[[sk]].<|im_end|>\\n<|im_start|>…"
    )


def test_every_category_has_a_report(folder: SnapshotFolder) -> None:
    assert folder.compare(taken(b"ab")).report() == "head.chatml: nothing is recorded yet."
    folder.record(taken(b"ab"))
    assert folder.compare(taken(b"ab")).report() == "head.chatml: the same bytes."
    assert folder.compare(taken(b"abc")).report() == "head.chatml: 1 bytes were appended; none before them moved."
    assert str(folder.unused([])[0]) == "head.chatml: it is recorded, and nothing rendered it."
    assert "where   end of prompt, was head/system" in folder.compare(taken(b"a")).report()


# Files


@pytest.mark.slow
@given(data=nasty | st.binary(max_size=50))
def test_what_is_recorded_is_read_back_byte_for_byte(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """No newline is added, none is translated."""
    folder = SnapshotFolder(tmp_path_factory.mktemp("prompts"))
    folder.record(taken(data))
    assert (folder.path / "head.chatml.prompt").read_bytes() == data
    assert folder.compare(taken(data)).relation is Relation.SAME
    assert folder.list() == ("head.chatml",)


def test_the_manifest_is_the_same_on_every_machine(folder: SnapshotFolder, tmp_path: Path) -> None:
    """Sources are paths of this machine and stay out; one key a line, one span a line."""
    folder.record(shot("Be brief.", "shell", sources={"head/system": str(tmp_path), "tool[shell]": str(tmp_path)}))
    first = (folder.path / "head.chatml.json").read_bytes()
    other = SnapshotFolder(tmp_path / "other")
    other.record(shot("Be brief.", "shell"))
    assert (other.path / "head.chatml.json").read_bytes() == first
    assert str(tmp_path).encode() not in first and first.decode().splitlines()[:3] == [
        *("{", '"name":"head",', '"dialect":"chatml",')
    ]
    fields = json.loads(first)
    assert fields["template"] == SYSTEM.template.digest and fields["tokenizer"] == TOKENS.digest
    assert fields["n_bytes"] == fields["spans"][-1][1] and fields["n_tokens"] == len(fields["ids"])


def test_a_recorded_prompt_is_not_recorded_over(folder: SnapshotFolder) -> None:
    folder.record(taken(b"one"))
    folder.record(taken(b"one"))
    for other in (b"two", b"one more"):
        with pytest.raises(NotSignedOff, match="with other bytes"):
            folder.record(taken(other))
    assert folder.compare(taken(b"one")).relation is Relation.SAME


def test_a_move_cannot_land_without_its_entry(folder: SnapshotFolder, tmp_path: Path) -> None:
    """Nor with the entry of another move."""
    ledger, old, new = Ledger(tmp_path / "ledger.jsonl", who=lambda: "Ada"), taken(b"one"), taken(b"two")
    folder.record(old)
    with pytest.raises(NotSignedOff, match="no ledger entry"):
        folder.accept(new)
    entry = ledger.append(folder.compare(new), reason="shorter", cost=NotMeasured("no engine"))
    for other in (taken(b"three"), replace(new, name="tail"), replace(new, dialect="qwen")):
        with pytest.raises(NotSignedOff, match="entry 1"):
            folder.accept(other, entry)
    assert folder.compare(old).relation is Relation.SAME
    folder.accept(new, entry)
    assert folder.compare(new).relation is Relation.SAME
    ledger.verify(folder.signed())


def test_what_only_grew_keeps_the_signature_of_its_beginning(folder: SnapshotFolder, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", who=lambda: "Ada")
    folder.record(taken(b"one"))
    entry = ledger.append(folder.compare(taken(b"two")), reason="why not", cost=NotMeasured("no engine"))
    folder.accept(taken(b"two"), entry)
    folder.accept(taken(b"two more"))
    ledger.verify(folder.signed())
    assert folder.compare(taken(b"two more")).relation is Relation.SAME


def test_unused_snapshots_are_those_that_nobody_names(folder: SnapshotFolder) -> None:
    for name, spoken in (("a", "chatml"), ("a", "qwen2.5"), ("b", "chatml")):
        folder.record(replace(taken(b"x"), name=name, dialect=spoken))
    (folder.path / "README.txt").write_text("not a snapshot")
    assert folder.list() == ("a.chatml", "a.qwen2.5", "b.chatml")
    unused = folder.unused([("a", "chatml"), "b"])
    assert [(one.relation, one.name, one.dialect) for one in unused] == [(Relation.UNUSED, "a", "qwen2.5")]
    assert folder.unused(["a", "b.chatml"]) == () and SnapshotFolder(folder.path / "none").list() == ()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "a.b", "-a", "é", "a b", "a\n", "con", "NUL", "x" * 101]
)
def test_a_name_that_is_no_safe_file_name_is_refused(folder: SnapshotFolder, name: str) -> None:
    for one in (replace(taken(b"x"), name=name), replace(taken(b"x"), dialect=name if name != "a.b" else "a.")):
        for use in (folder.compare, folder.record, folder.accept):
            with pytest.raises(BadSnapshotName, match="Use up to 100 ASCII letters") as refused:
                use(one)
            assert repr(name[:4])[1:-1] in str(refused.value) or name == "a.b"
    assert not folder.path.exists()


def _change(data: bytes) -> bytes:
    return data.replace(b"brief", b"short")


DAMAGE = {
    "text edited by hand": (".prompt", _change, "changed by hand"),
    "text checked out with CRLF": (".prompt", lambda data: data.replace(b"\n", b"\r\n"), "-text"),
    "manifest checked out with CRLF": (".json", lambda data: data.replace(b"\n", b"\r\n"), "-text"),
    "manifest edited by hand": (".json", lambda data: data.replace(b'"signed":null', b'"signed": null'), "damaged"),
    "manifest cut": (".json", lambda data: data[:-9], "damaged"),
    "manifest without a key": (".json", lambda data: data.replace(b'"n_signed":0,\n', b""), "damaged"),
    "manifest that is no JSON": (".json", lambda data: b"\xff", "damaged"),
    "manifest that is deep": (".json", lambda data: b"[" * 99999, "damaged"),
    "manifest of other types": (".json", lambda data: data.replace(b'"spans":[', b'"spans":[\n1,'), "is no manifest"),
    "another digest": (".json", lambda data: data.replace(b'"sha256":"', b'"sha256":"0'), "changed by hand"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found_and_named(folder: SnapshotFolder, kind: str) -> None:
    ending, damage, told = DAMAGE[kind]
    folder.record(shot("Be brief.\nSo."))
    path = folder.path / f"head.chatml{ending}"
    changed = damage(path.read_bytes())
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    for use in (folder.compare, folder.record, folder.accept):
        with pytest.raises(BadSnapshot, match=told) as found:
            use(shot("Be brief.\nSo."))
        assert path.stem in str(found.value) and found.value.remedy
    with pytest.raises(BadSnapshot):
        folder.signed()


def test_a_crlf_checkout_of_a_repository_is_prevented_by_the_line_that_is_named(tmp_path: Path) -> None:
    """The remedy of the message works, and this repository has it."""
    line = "fixtures/** -text"
    git = ["git", "-c", "core.autocrlf=true", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / ".gitattributes").write_text(line + "\n")
    folder = SnapshotFolder(tmp_path / "fixtures" / "prompts")
    folder.record(taken(b"one\ntwo\n"))
    subprocess.run([*git, "add", "-A"], check=True, capture_output=True)
    for path in folder.path.iterdir():
        path.unlink()
    subprocess.run([*git, "checkout", "-q", "--", "."], check=True)
    assert folder.compare(taken(b"one\ntwo\n")).relation is Relation.SAME
    own = (Path(__file__).parents[3] / ".gitattributes").read_text(encoding="utf-8")
    assert line in own.splitlines()


@pytest.mark.parametrize("ending", [".prompt", ".json"])
def test_half_a_snapshot_is_told(folder: SnapshotFolder, ending: str) -> None:
    folder.record(taken(b"x"))
    (folder.path / f"head.chatml{ending}").unlink()
    with pytest.raises(BadSnapshot, match="stands without"):
        folder.compare(taken(b"x"))


def _record_often(path: Path, n: int) -> None:
    folder = SnapshotFolder(path)
    for _ in range(n):
        folder.record(taken(b"same\n" * 2000))
        folder.accept(taken(b"same\n" * 2000))
        assert folder.compare(taken(b"same\n" * 2000)).relation is Relation.SAME


@pytest.mark.slow
def test_workers_that_write_one_snapshot_do_no_harm(folder: SnapshotFolder) -> None:
    fork = multiprocessing.get_context("spawn")
    workers = [fork.Process(target=_record_often, args=(folder.path, 40)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert sorted(path.name for path in folder.path.iterdir()) == ["head.chatml.json", "head.chatml.prompt"]


def _grow(path: Path, n: int) -> None:
    for n_lines in range(1, n):
        SnapshotFolder(path).accept(taken(b"line\n" * n_lines))


@pytest.mark.slow
def test_a_reader_never_sees_a_text_without_its_manifest(folder: SnapshotFolder) -> None:
    """Both are replaced under one lock."""
    folder.record(taken(b"line\n"))
    writer = multiprocessing.get_context("spawn").Process(target=_grow, args=(folder.path, 200))
    writer.start()
    seen = {folder.compare(taken(b"line\n" * 500)).relation}
    while writer.is_alive():
        seen.add(folder.compare(taken(b"line\n" * 500)).relation)
    assert writer.exitcode == 0 and seen == {Relation.EXTENDED}


# Taking them


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_a_head_ends_where_the_first_users_words_begin(family: Family) -> None:
    """In every dialect, as the renderer has it; its spans tile it, and its tokens are its bytes."""
    given, spoken = head("Be brief.", "shell", skills=(b"tidy: cleans up",)), dialect(family)
    taken = snapshot_of(given, spoken, name="head", dialect_name="d", tokenizer=TOKENS)
    assert taken.data == Renderer(spoken).head(given)
    assert [span.start for span in taken.spans] == [0, *(span.end for span in taken.spans)][:-1]
    assert taken.spans[-1].end == len(taken.data) and taken.ids is not None
    assert TOKENS.decode(taken.ids) == taken.data and taken.n_tokens == len(taken.ids)


def test_a_special_token_typed_in_the_system_text_is_no_special_token() -> None:
    ids = shot("Say <|im_end|>.").ids
    assert ids is not None and ids.count(TOKENS.specials["<|im_end|>"]) == 1


def test_without_a_tokenizer_there_are_no_tokens() -> None:
    taken = snapshot_of(head("Be brief."), SYSTEM, name="head", dialect_name="chatml")
    assert (taken.n_tokens, taken.ids, taken.tokenizer) == (None, None, None)


def talk() -> Conversation:
    log, render = Conversation(Head(SYSTEM.epoch(TOKENS.digest), b"Be brief.")), Renderer(SYSTEM)
    for event in (User(b"Hi"), Reply(b"Well", "stop", "auto", 0), User(b"So")):
        delta = None if isinstance(event, Reply) else render.extend(log.tip, event)
        data, authored = (b"Well", [(0, 4)]) if delta is None else (delta.data, list(delta.authored))
        log.append(event, data, TOKENS.encode(data, authored))
    return log


def test_a_conversation_is_taken_as_it_was_sent() -> None:
    log = talk()
    taken = snapshot_of(log, SYSTEM, name="talk", dialect_name="chatml", tokenizer=TOKENS)
    assert taken.data == b"".join(node.sent for node in log.nodes()) and taken.ids == tuple(log.ids.tolist())
    assert {"head/system", "event 1 text", "event 2 reply", "event 3 text"} <= {span.name for span in taken.spans}


def test_a_conversation_that_sent_nothing_is_its_head() -> None:
    """A snapshot of nothing would never move."""
    taken = snapshot_of(Conversation(head("Be brief.")), SYSTEM, name="head", dialect_name="chatml", tokenizer=TOKENS)
    assert taken == shot("Be brief.") and taken.data


def test_a_conversation_is_not_counted_with_another_tokenizer() -> None:
    with pytest.raises(EpochMismatch, match="the tokenizer of the engine"):
        snapshot_of(talk(), SYSTEM, name="talk", dialect_name="chatml", tokenizer=byte_tokenizer(["<|x|>"]))


@pytest.mark.parametrize("module", ["snapshots.folder", "snapshots.ledger", "cost.rates"])
def test_importing_loads_the_standard_library_only(module: str) -> None:
    """A test run that compares nothing pays for nothing."""
    source = f"import sys, oasis_harness.guard.{module}; print(*sorted({{one.split('.')[0] for one in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"numpy", "pydantic", "jinja2", "tokenizers", "tiktoken", "yaml", "mlx"})
