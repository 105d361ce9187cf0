"""Skills: one line each in the head, the same bytes from every checkout, clear errors for a faulty SKILL.md."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oasis_harness.errors import BadSkill, DuplicateTool
from oasis_harness.registry import Group, Skill, Skills, Tools

GOOD = "---\nname: deploy\ndescription: Put it there.\n---\n# Deploy\n\nDo it.\n"


def folder(tmp_path: Path, **skills: str | bytes) -> Path:
    for name, text in skills.items():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "SKILL.md").write_bytes(text.encode() if isinstance(text, str) else text)
    return tmp_path


def skill(name: str) -> Skill:
    return Skill(name, f"About {name}.", f"Body of {name}.", f"/somewhere/{name}/SKILL.md")


@given(st.lists(st.text("abz-", min_size=1, max_size=5), unique=True, max_size=8), st.integers())
def test_any_order_gives_the_same_lines(names: list[str], seed: int) -> None:
    shuffled = random.Random(seed).sample(names, len(names))
    assert Skills(map(skill, shuffled)).lines() == Skills(map(skill, names)).lines()
    assert [line.split(b":")[0].decode() for line in Skills(map(skill, names)).lines()] == sorted(names)


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20).filter(str.strip), min_size=1),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_line_ends_and_byte_order_mark_change_no_byte(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], line_end: str, has_mark: bool
) -> None:
    text = GOOD + "\n".join(lines)
    other = "\ufeff" * has_mark + text.replace("\n", line_end)
    here = Skills.load(folder(tmp_path_factory.mktemp("lf"), deploy=text)).get("deploy")
    there = Skills.load(folder(tmp_path_factory.mktemp("other"), deploy=other)).get("deploy")
    assert here is not None and there is not None
    assert (here.name, here.description, here.body) == (there.name, there.description, there.body)


def test_a_skill_is_read_from_its_folder(tmp_path: Path) -> None:
    skills = Skills.load(folder(tmp_path, deploy=GOOD))
    path = tmp_path / "deploy" / "SKILL.md"
    assert list(skills) == [Skill("deploy", "Put it there.", "# Deploy\n\nDo it.", str(path))]
    assert skills.lines() == (b"deploy: Put it there.",)
    assert len(skills) == 1 and "deploy" in skills and "other" not in skills


def test_loose_files_and_hidden_folders_are_passed_over(tmp_path: Path) -> None:
    folder(tmp_path, deploy=GOOD)
    (tmp_path / "README.md").write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / "__pycache__").mkdir()
    assert len(Skills.load(tmp_path)) == 1


def test_several_folders_are_one_collection(tmp_path: Path) -> None:
    folder(tmp_path / "a", zebra=GOOD.replace("deploy", "zebra"))
    folder(tmp_path / "b", ant=GOOD.replace("deploy", "ant"))
    assert [skill.name for skill in Skills.load(tmp_path / "a", str(tmp_path / "b"))] == ["ant", "zebra"]


def test_one_name_in_two_folders_is_refused(tmp_path: Path) -> None:
    folder(tmp_path / "a", deploy=GOOD)
    folder(tmp_path / "b", deploy=GOOD)
    with pytest.raises(DuplicateTool, match=r"Two skills are called deploy: .*a.*b"):
        Skills.load(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no front matter"),
        ("# Deploy\n", "no front matter"),
        ("---\nname: deploy\n", "no front matter"),
        ("---\n---\nBody", "lacks the field name"),
        ("---\n- a\n---\nBody", "lacks the field name"),
        ("---\nname: deploy\n---\nBody", "lacks the field description"),
        ("---\nname: deploy\ndescription:\n---\nBody", "lacks the field description"),
        ("---\nname: deploy\ndescription: '  '\n---\nBody", "has '  ' for the field description"),
        ("---\nname: 7\ndescription: x\n---\nBody", "has 7 for the field name"),
        ("---\nname: deploy\ndescription: 2024-13-45\n---\nBody", "not YAML|field description"),
        ("---\nname: deploy\ndescription: |\n  a\n  b\n---\nBody", "several lines"),
        ('---\nname: deploy\ndescription: "a\\u2028b"\n---\nBody', "several lines"),
        ("---\nname: deploy\ndescription: a: b\n---\nBody", "not YAML"),
        ("---\nname: other\ndescription: x\n---\nBody", "name: 'other' in a folder called 'deploy'"),
        ("---\nname: deploy\ndescription: x\n---\n \n", "no instructions"),
        (b"---\nname: deploy\ndescription: \xff\n---\nBody", "not UTF-8 at byte 30"),
    ],
)
def test_a_faulty_skill_is_named_with_its_fault(tmp_path: Path, text: str | bytes, fault: str) -> None:
    with pytest.raises(BadSkill, match=fault) as caught:
        Skills.load(folder(tmp_path, deploy=text))
    assert str(tmp_path / "deploy" / "SKILL.md") in str(caught.value) and caught.value.remedy


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_skill_or_a_clear_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    place = folder(tmp_path_factory.mktemp("any"), deploy=b"---\n" + data + b"\n---\nBody")
    try:
        assert b"\n" not in Skills.load(place).lines()[0]
    except BadSkill as error:
        assert error.remedy


def test_a_folder_without_skill_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    with pytest.raises(BadSkill, match=r"deploy.SKILL\.md cannot be read"):
        Skills.load(tmp_path)


def test_a_missing_skills_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSkill, match="nowhere does not exist"):
        Skills.load(tmp_path / "nowhere")


def test_register_adds_load_skill_last() -> None:
    tools = Tools()
    Skills([skill("deploy"), skill("ant")]).register(tools)
    (tool,) = tools
    assert tool.name == "load_skill" and tool.group is Group.OPTIONAL
    assert tool.call({"name": "ant"}) == "Body of ant."
    assert tool.call({"name": "bee"}) == "There is no skill 'bee'. Skills: ant, deploy."


def test_the_tool_is_the_same_bytes_whatever_the_skills_are() -> None:
    one, two = Tools(), Tools()
    Skills([skill("a")]).register(one)
    Skills([skill("b"), skill("c")]).register(two)
    assert one.frozen()[0].schema == two.frozen()[0].schema


def test_no_skills_add_no_tool() -> None:
    tools = Tools()
    Skills().register(tools)
    assert len(tools) == 0 and Skills().lines() == ()


def test_shipped_skills_are_short_and_one_line_each() -> None:
    skills = Skills.shipped()
    assert {"explore-codebase", "fix-failing-test"} <= {skill.name for skill in skills}
    for shipped in skills:
        assert len(shipped.description) < 120 and len(shipped.body.splitlines()) < 60


def test_shipped_skills_use_only_tools_and_arguments_that_exist(tmp_path: Path) -> None:
    """Every call written in a skill on a line of its own is a call the toolbox takes."""
    from oasis_harness.toolbox import workspace_tools

    tools = workspace_tools(tmp_path)
    calls = [
        match for shipped in Skills.shipped() for match in re.finditer(r"\b(\w+)\((\w+=.*)?\)$", shipped.body, re.M)
    ]
    assert len(calls) > 10
    for call in calls:
        tool = tools.get(call[1])
        assert tool is not None, call[0]
        assert all(f"{name}: " in tool.signature for name in re.findall(r"(?:^|, )(\w+)=", call[2] or "")), call[0]
