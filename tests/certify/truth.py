"""What each family's template does, read off its text by hand. The certificate must say the same."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from oasis_harness.certify import CallForm
from oasis_harness.certify.certificate import (
    Anchor,
    Arguments,
    BoundaryName,
    Handling,
    Kept,
    Mode,
    NoneContent,
    ReasoningForm,
    Switch,
)
from oasis_harness.certify.sentinels import Base, Cut, DeltaBase
from oasis_harness.replies import CallLayout, GivenIds

__all__ = ["TRUTH", "Broken", "Outcome", "Truth"]

IN_PLACE, MOVED, DROPPED, REFUSED = Handling
HOLDS = ""


@dataclass(frozen=True)
class Broken:
    """What a re-render loses, and where: bytes from a anchor."""

    what: str
    anchor: Anchor
    n_bytes: int


_TOLD_OTHERWISE = ("is_driven", "generated", "result", "second_result", "user", "note", "truncated", "bare")

Outcome = str | Broken
"""Empty where the prefix holds; else where it breaks, or why it cannot be tried."""


@dataclass(frozen=True)
class Truth:
    """Every field of a certificate but the digest; the defaults are those of a plain template that knows tools."""

    generation_prompt: str
    closer: str
    native: CallForm | None
    none_content: NoneContent
    is_driven: bool = True
    """Calls are made in the template's own way, where it has one."""
    layout: CallLayout | None = None
    """What was learned of its calls, where nobody knows their syntax."""
    has_parts: bool = False
    lists_no_tools: bool = False
    needs_tools: bool = False
    has_system: bool = True
    has_tools: bool = True
    counts_turns: bool = False
    uses_date: bool = False
    roles: tuple[Handling, ...] = (IN_PLACE, IN_PLACE, IN_PLACE, IN_PLACE)
    """Of a later system message, a developer's, a user's after a user's, and a user's after a result."""
    trims: tuple[str, ...] = ()
    object_arguments: Arguments | None = Arguments.JSON
    text_arguments: Arguments | None = Arguments.DOUBLE
    prints_python: bool = False
    reasoning_form: ReasoningForm | None = None
    generated: Outcome = HOLDS
    result: Outcome = HOLDS
    second_result: Outcome = HOLDS
    user: Outcome = HOLDS
    note: Outcome = HOLDS
    truncated: Outcome = HOLDS
    letter: str = "A"
    bare: str = "A"
    """The class without tools, where it prints tools; `letter` is the one with them, which is never better."""
    answer_opener: str = ""
    tools_need_system: bool = False
    remarks: tuple[str, ...] = ()
    arguments: dict[str, object] = field(default_factory=dict)

    def fields(self) -> dict[str, object]:
        """Return what a certificate says, but for the digest and the boundaries."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _TOLD_OTHERWISE}
        named = ("system", "developer", "user after user", "user after result")
        roles = dict(zip(named, self.roles, strict=False))
        letters = {Mode.TOOLS: self.letter, Mode.BARE: self.bare} if self.has_tools else {Mode.BARE: self.letter}
        return own | {"calls": self.native if self.is_driven else None, "roles": roles, "letters": letters}

    def boundaries(self) -> dict[BoundaryName, Outcome]:
        outcomes = (self.generated, self.result, self.second_result, self.user, self.note, self.truncated)
        return dict(zip(BoundaryName, outcomes, strict=True))


CALL = CallForm(Base.CALL, has_role=True)
TEXT = CallForm(has_role=True)
TOOL_CALL = replace(CALL, cut=Cut(end="</tool_call>"))
IM_CALL = replace(TOOL_CALL, closer="<|im_end|>\n")
JSON_CALL = replace(IM_CALL, is_json=True)
MISTRAL_CALL = replace(CALL, cut=Cut(closer="</s>"), given_ids=GivenIds.NINE, closer="</s>")
HARMONY_CALL = replace(
    CALL, cut=Cut(closer="<|call|>"), is_parallel=False, delta_base=DeltaBase.SAME_CALL, closer="<|call|>"
)

ASSISTANT, IM_END = "<|im_start|>assistant\n", "<|im_end|>\n"
EMPTY, WORD, REFUSES, OTHER = NoneContent.EMPTY, NoneContent.WORD, NoneContent.REFUSED, NoneContent.OTHER
NO_TOOLS: dict[str, Any] = {"is_driven": False, "has_tools": False, "object_arguments": None, "text_arguments": None}
ALTERNATES = "roles must alternate"
ONE_CALL, NO_RESULTS = "the template prints one call a reply", "the template prints no results"
WITHOUT_RESULTS: dict[str, Any] = {"result": NO_RESULTS, "second_result": NO_RESULTS, "note": NO_RESULTS}

SILENT: dict[str, Any] = {
    "result": Broken("reply", Anchor.LAST_REPLY, 0),
    "note": Broken("reply", Anchor.LAST_REPLY, 0),
    "letter": "C",
}
"""Of a template that leaves out the words beside a call."""

BATCH = Broken("result", Anchor.RESULT, len("\n</tool_response>"))
TOOLS = Broken("tools", Anchor.TOOLS, 0)
SYSTEM = Broken("system", Anchor.SYSTEM, 0)
SLIP = replace(BATCH, what="result")

BLOCK = ReasoningForm("reasoning_content", "<think>\n", "\n</think>\n\n", False, False, Kept.WITHIN_TURN, None)
PROMPTED = replace(BLOCK, is_prompted=True)
STRIPPED = replace(PROMPTED, field="content", kept=Kept.NEVER)


def at_turn(what: str, n_bytes: int, anchor: Anchor = Anchor.FIRST_REPLY) -> dict[str, Any]:
    """Return the outcomes of a template that drops something at every user message."""
    broken = Broken(what, anchor, n_bytes)
    return {"user": broken, "note": broken, "truncated": broken}


def everywhere(broken: Broken) -> dict[str, Any]:
    return {"generated": broken, "result": broken, "user": broken, "note": broken, "truncated": broken}


CHATML_TOOLS = Truth(ASSISTANT, IM_END, JSON_CALL, EMPTY, second_result=BATCH)
LAST = Truth("", "</s>", MISTRAL_CALL, EMPTY, roles=(REFUSED, REFUSED, IN_PLACE, IN_PLACE), **SILENT)
GLM = Truth(
    "<|assistant|>\n",
    "",
    TOOL_CALL,
    REFUSES,
    trims=("assistant",),
    object_arguments=Arguments.OWN,
    text_arguments=Arguments.REFUSED,
)
GLM_THINKING = replace(
    GLM,
    generation_prompt="<|assistant|><think>",
    reasoning_form=replace(PROMPTED, opener="<think>", closer="</think>", switch=Switch("clear_thinking", False)),
    letter="B",
    bare="B",
    **at_turn("reasoning", -len("think>")),
)
HARMONY = Truth(
    "<|start|>assistant",
    "",
    HARMONY_CALL,
    EMPTY,
    uses_date=True,
    second_result=ONE_CALL,
    answer_opener="<|channel|>final<|message|>",
    bare="E",
    **SILENT,
)
KEEPING = Truth(
    ASSISTANT + "<think>\n",
    IM_END,
    JSON_CALL,
    EMPTY,
    trims=("assistant",),
    reasoning_form=replace(PROMPTED, switch=Switch("preserve_thinking", True)),
    second_result=BATCH,
    letter="B",
    bare="B",
    **at_turn("reasoning", -len("<think>\n")),
)
SOLAR = Truth(
    "<|begin|>assistant",
    "<|end|>",
    replace(CALL, cut=Cut(end="<|/call|>"), delta_base=DeltaBase.SAME_CALL, closer="<|calls|>"),
    EMPTY,
    reasoning_form=ReasoningForm(
        "reasoning",
        "<|think|>",
        "<|end|><|begin|>assistant",
        False,
        False,
        Kept.WITHIN_TURN,
        Switch("think_render_option", "all"),
    ),
    answer_opener="<|content|>",
    bare="B",
    **SILENT | at_turn("reasoning", len("<|")) | {"note": Broken("reply", Anchor.FIRST_REPLY, 0)},
)
NEMOTRON = Truth(
    ASSISTANT + "<think>\n",
    IM_END,
    JSON_CALL,
    WORD,
    reasoning_form=replace(PROMPTED, closer="\n</think>\n", switch=Switch("truncate_history_thinking", False)),
    second_result=BATCH,
    letter="B",
    bare="B",
    **at_turn("reasoning", -len("\n")),
)


def kept(truth: Truth, **arguments: object) -> Truth:
    """Return the truth of the same template under the switch that keeps what was thought."""
    assert truth.reasoning_form is not None
    reasoning_form = replace(truth.reasoning_form, kept=Kept.ALWAYS, switch=None)
    letter = "C" if truth.result else "A"
    return replace(
        truth,
        reasoning_form=reasoning_form,
        arguments=arguments,
        user=HOLDS,
        note=truth.result,
        truncated=HOLDS,
        letter=letter,
        bare="A",
    )


TRUTH = {
    "chatml": Truth(ASSISTANT, IM_END, replace(TEXT, closer=IM_END), REFUSES, **NO_TOOLS),
    "chatml with tools": CHATML_TOOLS,
    "coder": Truth(
        ASSISTANT,
        IM_END,
        IM_CALL,
        REFUSES,
        object_arguments=Arguments.OWN,
        text_arguments=Arguments.REFUSED,
        second_result=BATCH,
    ),
    "llama": Truth(
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|eot_id|>",
        replace(
            CALL,
            cut=Cut(closer="<|eom_id|>"),
            is_parallel=False,
            delta_base=DeltaBase.ANY_CALL,
            closer="<|eom_id|>",
        ),
        EMPTY,
        uses_date=True,
        trims=("system", "user", "assistant", "tool"),
        second_result=ONE_CALL,
        **SILENT,
    ),
    "mistral": LAST,
    "gemma": Truth(
        "<start_of_turn>model\n",
        "<end_of_turn>\n",
        None,
        WORD,
        has_system=False,
        roles=(REFUSED, REFUSED, REFUSED),
        trims=("user", "assistant"),
        result=ALTERNATES,
        second_result=ALTERNATES,
        note=ALTERNATES,
        **NO_TOOLS,
    ),
    "glm": GLM,
    "harmony": HARMONY,
    "phi": Truth(
        "<|end|>\n<|assistant|>\n",  # where the end of the user's turn stops cannot be told from the opener
        "",
        TEXT,
        WORD,
        second_result=Broken("result", Anchor.RESULT, len("<|end|>\n<")),
        letter="E",
        **NO_TOOLS,
    ),
    "system first": Truth(
        "<|assistant|>",
        "<|sep|>",
        replace(TEXT, closer="<|sep|>"),
        REFUSES,
        roles=(REFUSED, IN_PLACE, IN_PLACE, IN_PLACE),
        **NO_TOOLS,
    ),
    "granite": Truth(
        "<|start_of_role|>assistant<|end_of_role|>",
        "<|end_of_text|>\n",
        replace(TEXT, is_json=True, closer="<|end_of_text|>\n"),
        WORD,
        object_arguments=None,
        text_arguments=None,
    ),
    "command": Truth(
        "<|BOT|>",
        "<|END|>",
        replace(CALL, cut=Cut(end="<|END_ACTION|>"), is_counted=True, delta_base=DeltaBase.COUNTER, closer="<|END|>"),
        EMPTY,
        roles=(IN_PLACE, REFUSED, IN_PLACE, IN_PLACE),
        **SILENT,
    ),
    "pythonic": Truth(
        "<|header|>assistant<|/header|>",
        "<|eot|>",
        replace(CALL, cut=Cut(end="<|/python|>"), closer="<|eot|>"),
        REFUSES,
        object_arguments=Arguments.PYTHON,
        prints_python=True,
    ),
    "longcat": Truth(
        " ASSISTANT:",
        "</longcat_s>",
        replace(
            CALL,
            cut=Cut(end="</longcat_call>"),
            is_json=True,
            is_counted=True,
            delta_base=DeltaBase.NONE,
            closer="</longcat_s>",
        ),
        REFUSES,
        counts_turns=True,
        roles=(DROPPED, DROPPED, IN_PLACE, IN_PLACE),
    ),
    "hoisting": Truth(
        "<assistant>", "</s>", None, REFUSES, roles=(MOVED, DROPPED, IN_PLACE), **NO_TOOLS, **WITHOUT_RESULTS
    ),
    "kimi": Truth(
        "<|im_assistant|>assistant<|im_middle|>",
        "<|im_end|>",
        replace(CALL, cut=Cut(end="<|/calls|>"), given_ids=GivenIds.ANY, closer="<|im_end|>"),
        OTHER,
        answer_opener="<|text|>",
    ),
    "aya": Truth(
        "<|assistant|>",
        "<|end|>",
        replace(CALL, cut=Cut(end="<|/action|>"), is_json=True, closer="<|end|>"),
        EMPTY,
        roles=(IN_PLACE, IN_PLACE, REFUSED, REFUSED),
        note="a user speaks after an answer",
    ),
    "seed": Truth(
        "<s>assistant\n",
        "</s>",
        replace(CALL, cut=Cut(end="</seed:call>"), is_json=True, closer="</s>"),
        WORD,
        reasoning_form=ReasoningForm(
            "reasoning_content", "<seed:think>", "</seed:think>", False, False, Kept.ALWAYS, None
        ),
    ),
    "mistral, tools last": replace(LAST, user=TOOLS, note=TOOLS, truncated=TOOLS, letter="D"),
    "system last": Truth(
        "",
        "</s>",
        None,
        REFUSES,
        roles=(DROPPED, DROPPED, IN_PLACE),
        user=SYSTEM,
        truncated=SYSTEM,
        letter="D",
        **NO_TOOLS,
        **WITHOUT_RESULTS,
    ),
    "thinking": Truth(
        ASSISTANT,
        IM_END,
        JSON_CALL,
        WORD,
        roles=(DROPPED, IN_PLACE, IN_PLACE, IN_PLACE),
        reasoning_form=BLOCK,
        result=Broken("empty reasoning", Anchor.LAST_REPLY, 0),
        second_result=BATCH,
        letter="C",
        bare="B",
        **at_turn("reasoning", 0),
    ),
    "deepseek": Truth(
        "<|Assistant|><think>\n",
        "<|eos|>",
        replace(CALL, cut=Cut(end="<|/calls|>"), arguments_as_text=True, closer="<|eos|>"),
        EMPTY,
        roles=(MOVED, DROPPED, IN_PLACE, IN_PLACE),
        object_arguments=Arguments.REFUSED,
        text_arguments=Arguments.JSON,
        reasoning_form=STRIPPED,
        second_result=Broken("result", Anchor.RESULT, len("<|/output|><|")),
        letter="C",
        bare="B",
        **everywhere(Broken("reasoning", Anchor.LAST_REPLY, -len("<think>\n"))),
    ),
    "qwq": Truth(
        ASSISTANT + "<think>\n",
        IM_END,
        JSON_CALL,
        REFUSES,
        reasoning_form=STRIPPED,
        second_result=BATCH,
        letter="C",
        bare="B",
        **everywhere(Broken("reasoning", Anchor.LAST_REPLY, -len("<think>\n"))),
    ),
    "keeping": KEEPING,
    "keeping enable_thinking=False": replace(
        KEEPING,
        generation_prompt=ASSISTANT + "<think>\n\n</think>\n\n",
        reasoning_form=replace(BLOCK, is_skipped=True, switch=Switch("preserve_thinking", True)),
        arguments={"enable_thinking": False},
        **at_turn("empty reasoning", -len("<think>\n\n</think>\n\n")),
    ),
    "keeping preserve_thinking=True": kept(KEEPING, preserve_thinking=True),
    "glm thinking": GLM_THINKING,
    "glm thinking clear_thinking=False": kept(GLM_THINKING, clear_thinking=False),
    "solar": SOLAR,
    "solar think_render_option=all": kept(SOLAR, think_render_option="all"),
    "nemotron": NEMOTRON,
    "nemotron truncate_history_thinking=False": kept(NEMOTRON, truncate_history_thinking=False),
    "minimax": Truth(
        "]~b]ai\n<think>\n",
        "[e~[\n",
        replace(CALL, cut=Cut(end="</minimax>"), delta_base=DeltaBase.ANY_CALL, closer="[e~[\n"),
        WORD,
        object_arguments=Arguments.OWN,
        text_arguments=Arguments.REFUSED,
        reasoning_form=PROMPTED,
        second_result=Broken("result", Anchor.RESULT, len("</response>")),
        letter="B",
        bare="B",
        **at_turn("reasoning", -len("<think>\n")),
    ),
    "oss": replace(
        HARMONY,
        reasoning_form=ReasoningForm(
            "thinking",
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant",
            False,
            False,
            Kept.WITHIN_TURN,
            None,
        ),
        bare="B",
        **SILENT | at_turn("reasoning", len("<|channel|>")) | {"note": Broken("reply", Anchor.FIRST_REPLY, 0)},
    ),
    "gemma, text later": Truth(
        "<|turn>model\n",
        "<turn|>\n",
        replace(CALL, cut=Cut(end="<tool_call|>"), delta_base=DeltaBase.SAME_CALL),
        EMPTY,
        trims=("system", "user", "assistant"),
        object_arguments=Arguments.OWN,
        text_arguments=Arguments.LOST,
        prints_python=True,
        result=Broken("reply", Anchor.LAST_CALL, 0),
        second_result=Broken("result", Anchor.RESULT, len('<|"|>}<tool_response|>')),
        note=Broken("reply", Anchor.LAST_CALL, 0),
        letter="C",
    ),
    "apriel": Truth(
        "<|assistant|>\n",
        "\n<|end|>\n",
        replace(CALL, cut=Cut(end="</calls>"), closer="\n<|end|>\n"),
        REFUSES,
        result=Broken("closer", Anchor.FIRST_CALL, len('"}')),
        note=Broken("closer", Anchor.FIRST_CALL, len('"}')),
        letter="E",
    ),
    "hermes": replace(CHATML_TOOLS, letter="C", **everywhere(SLIP)),
}
"""By the family's `repr`."""
