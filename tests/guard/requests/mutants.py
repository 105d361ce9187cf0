"""A small agent's requests, and one small fault of every kind that moves its prefix: made by hand, and drawn."""

import copy
import datetime
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from hypothesis import strategies as st

from oasis_harness.guard.requests.blocks import Request
from oasis_harness.guard.requests.kinds import Kind
from oasis_harness.templates import Template
from oasis_harness.tokens import byte_tokenizer
from tests.render.templates import CHATML_TOOLS
from tests.render.thinkers import THINKING

Body: TypeAlias = dict[str, Any]
Bodies: TypeAlias = list[Body]
Put: TypeAlias = Callable[[Body, str], None]

N_TURNS = 6
AT = 3
"""The request from which on a fault shows, where it shows in all later ones."""
SYSTEM = "You repair programs. Be brief.\nAlways run the tests of the café module."
RESULTS = (
    "def add(a, b):\n    return a - b\n",
    "1 failed, 3 passed",
    "edited calc.py",
    "4 passed",
    "M calc.py\nA new.py",
)


@dataclass(frozen=True)
class Mutant:
    """Requests with one kind of fault in them."""

    kind: Kind
    name: str
    requests: Sequence[Request]


def tool(name: str) -> Body:
    limit = {"type": "integer", "description": "At most so many lines.", "default": 200}
    properties = {"path": {"type": "string", "description": f"What to {name}."}, "limit": limit}
    schema = {"type": "object", "properties": properties, "required": ["path", "limit"]}
    return {"type": "function", "function": {"name": name, "description": f"{name} a file", "parameters": schema}}


def agent(name: str = "a", n_turns: int = N_TURNS) -> Bodies:
    """Return the bodies a sound agent sends; each is a copy."""
    messages: list[Body] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": f"Find out why add of task {name} is wrong.\nThen repair it, and run the tests."},
    ]
    bodies: Bodies = []
    for turn in range(n_turns):
        body = {"model": "small-1", "temperature": 0, "tools": [tool(n) for n in ("read", "edit", "run")]}
        bodies.append(copy.deepcopy({**body, "messages": messages}))
        messages += step(name, turn)
    return bodies


def step(name: str, turn: int) -> list[Body]:
    if turn == 2:
        said: Body = {
            "role": "assistant",
            "content": f"Done with {name}.",
            "reasoning_content": "It passed, so I stop.",
        }
        more = [{"role": "user", "content": "Good, thanks."}, {"role": "user", "content": "Now look at sub as well."}]
        return [said, *more]
    call = {"name": "read", "arguments": json.dumps({"path": f"src/{name}{turn}.py", "limit": 20})}
    calls = [{"id": f"call_{name}_{turn}_{i}", "type": "function", "function": call} for i in range(2)]
    said = {"role": "assistant", "content": "", "reasoning_content": f"Step {turn}: read it.", "tool_calls": calls}
    results = [
        {
            "role": "tool",
            "tool_call_id": each["id"],
            "content": f"{RESULTS[(turn + i) % len(RESULTS)]} ({name}{turn}{i})",
        }
        for i, each in enumerate(calls)
    ]
    return [said, *results]


# What is known besides the bodies.


def rendered(bodies: Bodies, template: Template | None = None) -> list[Request]:
    """Return the bodies with their prompts, tokens and full reuse."""
    template = template or Template(CHATML_TOOLS)
    tokenizer = byte_tokenizer(["<|im_start|>", "<|im_end|>"])
    requests: list[Request] = []
    for body in bodies:
        prompt = template.render(body["messages"], tools=body["tools"], generation_prompt=True).encode()
        ids = tokenizer.encode(prompt)
        reused = len(requests[-1].ids or ()) if requests else 0
        requests.append(Request(body, prompt, ids, reused, template.digest, template.arguments))
    return requests


def clean() -> list[Request]:
    return rendered(agent())


def interleaved() -> list[Request]:
    """Two conversations that take turns, and a third that starts as the first one does."""
    pairs = zip(agent("a"), agent("b"), strict=True)
    return [Request(body) for pair in pairs for body in pair] + [Request(agent("a")[0])]


# Places and edits.


def bare(bodies: Sequence[Body]) -> list[Request]:
    return [Request(body) for body in bodies]


def _end(text: str, line: str) -> str:
    return f"{text.rstrip()}\n{line}\nThat is all."


def in_system(body: Body, line: str) -> None:
    body["messages"][0]["content"] = _end(SYSTEM, line)


def in_tool(body: Body, line: str) -> None:
    function = body["tools"][1]["function"]
    function["description"] = _end(function["description"], line)


def in_task(body: Body, line: str) -> None:
    message = body["messages"][1]
    message["content"] = _end(message["content"], line)


def in_result(body: Body, line: str) -> None:
    for message in body["messages"][3:4]:
        message["content"] = _end(message["content"], line)


PLACES: tuple[Put, ...] = (in_system, in_tool, in_task, in_result)
places = st.sampled_from(PLACES)


def versions(put: Put, before: str, after: str) -> list[Request]:
    """Put one line into the first requests and another into those from `AT` on."""
    bodies = agent()
    for index, body in enumerate(bodies):
        put(body, before if index < AT else after)
    return bare(bodies)


def from_here(edit: Callable[[Body], None], at: int = AT) -> list[Request]:
    """Edit every request from `at` on."""
    bodies = agent()
    for body in bodies[at:]:
        edit(body)
    return bare(bodies)


def two(kind: Kind, what: str, values: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[Mutant]:
    """Draw a position and two different values for a line."""
    pairs = values.filter(lambda pair: pair[0] != pair[1])
    return st.builds(lambda put, pair: Mutant(kind, what, versions(put, *pair)), places, pairs)


def pairs_of(values: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, str]]:
    return st.tuples(values, values)


# The kinds.

FORMATS = (
    *("It is %Y-%m-%d %H:%M:%S.", "Date: %A, %d %B %Y", "Now: %Y-%m-%dT%H:%M:%SZ", "Today is %b %d, %Y", "%H:%M"),
    *("Local time: %I:%M %p", "%d/%m/%Y", "%d.%m.%Y %H:%M", "ts=%s", "It is %Y-%m-%d %H:%M +02:00"),
)


def _format(moment: datetime.datetime, form: str) -> str:
    return moment.strftime(form.replace("%s", str(int(moment.replace(tzinfo=datetime.UTC).timestamp()))))


def clocks() -> st.SearchStrategy[Mutant]:
    days = st.datetimes(datetime.datetime(2020, 1, 1), datetime.datetime(2030, 1, 1))
    lines = st.builds(
        lambda form, a, b: (_format(a, form), _format(b, form)), st.sampled_from(FORMATS), days, days
    ) | st.builds(lambda a, b: (f"turn {a} of 50", f"turn {b} of 50"), st.integers(1, 50), st.integers(1, 50))
    return two(Kind.CLOCK, "two moments", lines)


def new_ids(body: Body, mark: str) -> None:
    for message in body["messages"]:
        for call in message.get("tool_calls", []):
            call["id"] = f"{mark}-{call['id']}"
        if "tool_call_id" in message:
            message["tool_call_id"] = f"{mark}-{message['tool_call_id']}"


def keyed(values: tuple[str, str]) -> list[Request]:
    bodies = agent()
    return bare([{**body, "prompt_cache_key": values[i >= AT]} for i, body in enumerate(bodies)])


def randoms() -> st.SearchStrategy[Mutant]:
    uuids = pairs_of(st.uuids().map(str))
    hexes = pairs_of(st.binary(min_size=8, max_size=20).map(bytes.hex))
    lines = (uuids | hexes).map(lambda pair: (f"Session {pair[0]} began.", f"Session {pair[1]} began."))
    keys = uuids.filter(lambda pair: pair[0] != pair[1]).map(lambda pair: Mutant(Kind.RANDOM, "cache key", keyed(pair)))
    marks = st.text("abcdef0123456789", min_size=1, max_size=8)
    calls = marks.map(lambda mark: Mutant(Kind.RANDOM, "call ids", from_here(lambda body: new_ids(body, mark))))
    return two(Kind.RANDOM, "two ids", lines) | keys | calls


def orders() -> st.SearchStrategy[Mutant]:
    def tools(order: Sequence[int]) -> list[Request]:
        return from_here(lambda body: body.update(tools=[body["tools"][i] for i in order]))

    def keys(at: int) -> list[Request]:
        def edit(body: Body) -> None:
            schema = body["tools"][at]["function"]["parameters"]
            schema["properties"] = dict(reversed(schema["properties"].items()))

        return from_here(edit)

    def results(body: Body) -> None:
        body["messages"][3:5] = body["messages"][4:2:-1]

    words = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), min_size=2, unique=True)
    lists = words.flatmap(lambda names: st.tuples(st.just(names), st.permutations(names)))
    shuffled = st.permutations(range(3)).filter(lambda order: order != [0, 1, 2])
    return (
        shuffled.map(lambda order: Mutant(Kind.ORDER, "tools", tools(order)))
        | st.integers(0, 2).map(lambda at: Mutant(Kind.ORDER, "schema keys", keys(at)))
        | st.just(Mutant(Kind.ORDER, "results", from_here(results)))
        | two(Kind.ORDER, "lines", lists.map(lambda both: ("\n".join(both[0]), "\n".join(both[1]))))
        | two(Kind.ORDER, "a list", lists.map(lambda both: (", ".join(both[0]), ", ".join(both[1]))))
    )


def respelled(value: Any) -> Callable[[Body], None]:
    def edit(body: Body) -> None:
        for each in body["tools"][1:]:
            each["function"]["parameters"]["properties"]["limit"]["default"] = value

    return edit


def rearranged(separators: tuple[str, str]) -> Callable[[Body], None]:
    def edit(body: Body) -> None:
        for message in body["messages"]:
            for call in message.get("tool_calls", []):
                arguments = json.loads(call["function"]["arguments"])
                call["function"]["arguments"] = json.dumps(arguments, separators=separators)

    return edit


def as_bytes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Request]:
    forms = [before if i < AT else after for i in range(N_TURNS)]
    return [Request(json.dumps(body, **form).encode()) for body, form in zip(agent(), forms, strict=True)]


def serialisations() -> st.SearchStrategy[Mutant]:
    kind = Kind.SERIALISATION
    forms: st.SearchStrategy[Body] = st.sampled_from(
        [{}, {"ensure_ascii": False}, {"indent": 1}, {"separators": (",", ":")}]
    )
    bodies = st.tuples(forms, forms).filter(lambda pair: pair[0] != pair[1])
    literals = st.sampled_from([("True", "true"), ("1.0", "1"), ("1e3", "1000"), ("&lt;a>", "<a>"), ("None", "null")])
    spaces = st.sampled_from([(",", ":"), (" ,", " :"), (", ", ":")])
    return (
        bodies.map(lambda pair: Mutant(kind, "the body", as_bytes(*pair)))
        | st.sampled_from([200.0, 2e2, "200"]).map(lambda v: Mutant(kind, "a number", from_here(respelled(v))))
        | spaces.map(lambda pair: Mutant(kind, "arguments", from_here(rearranged(pair))))
        | two(kind, "a literal", literals.map(lambda pair: (f"flag {pair[0]} set", f"flag {pair[1]} set")))
    )


MISSING = object()


def field(at: int, name: str, before: Any, after: Any) -> list[Request]:
    bodies = agent()
    for index, body in enumerate(bodies):
        value = before if index < AT else after
        for message in body["messages"][at : at + 1]:
            message.pop(name, None)
            message.update({} if value is MISSING else {name: value})
    return bare(bodies)


def presences() -> st.SearchStrategy[Mutant]:
    empty = st.sampled_from([MISSING, None, "", [], {}])
    both = st.tuples(empty, empty).filter(lambda pair: pair[0] is not pair[1])
    places = st.sampled_from([(1, "name"), (2, "content"), (3, "content"), (4, "annotations"), (1, "tool_calls")])
    return st.builds(lambda place, pair: Mutant(Kind.PRESENCE, place[1], field(*place, *pair)), places, both)


def whitespaces() -> st.SearchStrategy[Mutant]:
    def mutant(put: Put, edit: Callable[[str], str]) -> Mutant:
        bodies = agent()
        for index, body in enumerate(bodies):
            put(body, "x")
            for message in body["messages"][: 4 * (index >= AT)]:
                message["content"] = edit(message["content"])
        return Mutant(Kind.WHITESPACE, "white space", bare(bodies))

    edits: list[Callable[[str], str]] = [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text + "\n",
        lambda text: text.replace(" ", "  "),
        lambda text: "  " + text,
    ]
    return st.builds(mutant, st.sampled_from([in_system, in_task]), st.sampled_from(edits))


def unicodes() -> st.SearchStrategy[Mutant]:
    hidden = st.sampled_from(["\u200b", "\u200d", "\U000e0061", "\ufe0f", "\u2060", "\u00ad"])
    words = st.text("abcdefg ", min_size=6, max_size=12).map(lambda text: f"x{text}y")
    spots = st.builds(
        lambda text, char, at: (text, text[: at + 1] + char + text[at + 1 :]), words, hidden, st.integers(0, 4)
    )
    marked = st.text("éüñçåö", min_size=1).map(lambda text: (text, unicodedata.normalize("NFD", text)))
    wide = st.text("abcXYZ", min_size=1).map(lambda text: (text, "".join(chr(ord(char) + 0xFEE0) for char in text)))
    return two(Kind.UNICODE, "characters", spots | marked | wide)


def paths() -> st.SearchStrategy[Mutant]:
    names = st.text("abcdefgh_", min_size=1, max_size=8)
    roots = st.sampled_from(["/home/", "/Users/", "~/", "/tmp/", "/var/folders/", "./"])
    some = st.builds(lambda root, parts: root + "/".join(parts), roots, st.lists(names, min_size=1, max_size=4))
    lines = pairs_of(some).map(lambda pair: (f"Skills live in {pair[0]} today.", f"Skills live in {pair[1]} today."))
    case = names.map(lambda name: (f"See src/a{name}.py.", f"See src/A{name}.py."))
    return two(Kind.PATH, "paths", lines | case)


LABELS = ("cwd: ", "Working directory: ", "git branch: ", "Platform: ", "user = ", "OS version: ", "Terminal width: ")


def environments() -> st.SearchStrategy[Mutant]:
    values = st.text("abcdefghij", min_size=2, max_size=9) | st.integers(40, 200).map(str) | st.just("/srv/x")
    values |= st.sampled_from(["linux", "darwin", "/home/ann/p", "/tmp/q", "a1b2c3d4e5f6", "feature/x"])
    lines = st.builds(lambda label, pair: (label + pair[0], label + pair[1]), st.sampled_from(LABELS), pairs_of(values))
    return two(Kind.ENVIRONMENT, "a fact", lines)


def reminded(put: Callable[[list[Body]], None], at: Sequence[int]) -> list[Request]:
    """Change the end of some requests, and nothing when they are replayed."""
    bodies = agent()
    for index in at:
        put(bodies[index]["messages"])
    return bare(bodies)


def ephemerals() -> st.SearchStrategy[Mutant]:
    words = st.sampled_from(["Be brief.", "You have files open: a, b.", "Remember the plan.\n1. read", "It is 10:31."])

    def mutant(how: str, text: str, at: int) -> Mutant:
        def put(messages: list[Body]) -> None:
            said = messages[-1]["content"]
            if how == "message":
                messages.append({"role": "user", "content": f"<reminder>{text}</reminder>"})
            else:
                forms = {"after": f"{said}\n{text}", "before": f"{text}\n{said}", "around": f"<{how}>{said}</{how}>"}
                messages[-1]["content"] = forms[how]

        return Mutant(Kind.EPHEMERAL, how, reminded(put, [at]))

    ways = st.sampled_from(["message", "after", "before", "around"])
    return st.builds(mutant, ways, words, st.integers(0, N_TURNS - 2))


def past(how: str, at: int) -> Callable[[Body], None]:
    """Rewrite a step of the past."""

    def edit(body: Body) -> None:
        messages = body["messages"]
        if how == "prune":
            messages[at + 1]["content"] = "[old result removed]"
        elif how == "cut":
            messages[at + 1]["content"] = messages[at + 1]["content"][:6]
        elif how == "think":
            del messages[at]["reasoning_content"]
        elif how == "repair":
            messages[at]["tool_calls"][0]["function"]["arguments"] = '{"path": "other.py"}'
        elif how == "drop":
            del messages[at : at + 3]
        else:
            messages[at : at + 6] = [{"role": "user", "content": "Summary: two files were read."}]

    return edit


def retroactives() -> st.SearchStrategy[Mutant]:
    ways = st.sampled_from(["prune", "cut", "think", "repair", "drop", "sum up"])
    return st.builds(
        lambda how, at: Mutant(Kind.RETROACTIVE, how, from_here(past(how, at), at=4)), ways, st.sampled_from([2, 5])
    )


def structurals() -> st.SearchStrategy[Mutant]:
    def insert(at: int, role: str, text: str) -> Mutant:
        message = {"role": role, "content": text}
        return Mutant(Kind.STRUCTURAL, "insert", from_here(lambda body: body["messages"].insert(at, message)))

    def merge(body: Body) -> None:
        for at, (a, b) in enumerate(zip(body["messages"], body["messages"][1:], strict=False)):
            if a["role"] == b["role"] == "user":
                body["messages"][at : at + 2] = [{"role": "user", "content": f"{a['content']}\n\n{b['content']}"}]
                return

    def double(body: Body) -> None:
        body["messages"].insert(0, dict(body["messages"][0]))

    def hoist(body: Body) -> None:
        body["system"] = body["messages"].pop(0)["content"]

    fixed = [Mutant(Kind.STRUCTURAL, "merge", from_here(merge, at=4))]
    fixed += [Mutant(Kind.STRUCTURAL, each.__name__, from_here(each)) for each in (double, hoist)]
    roles = st.sampled_from(["user", "system", "developer"])
    texts = st.sampled_from(["Note: tests moved.", "<status>busy</status>", "It is 10:00."])
    return st.builds(insert, st.integers(1, 5), roles, texts) | st.sampled_from(fixed)


def topologies() -> st.SearchStrategy[Mutant]:
    def add(at: int) -> Callable[[Body], None]:
        return lambda body: body["tools"].insert(at, tool("late"))

    def drop(at: int) -> Callable[[Body], None]:
        def edit(body: Body) -> None:
            del body["tools"][at]

        return edit

    settings = st.sampled_from(
        [("model", "large-2"), ("reasoning_effort", "high"), ("mode", "plan"), ("model", "small-2025-01-01")]
    )
    edits = (
        st.integers(0, 3).map(add)
        | st.integers(0, 2).map(drop)
        | settings.map(lambda pair: lambda body: body.update([pair]))
    )
    return edits.map(lambda edit: Mutant(Kind.TOPOLOGY, "set", from_here(edit)))


def templates() -> st.SearchStrategy[Mutant]:
    def upgraded(at: int, old: str, new: str) -> Mutant:
        a, b = rendered(agent()), rendered(agent(), Template(CHATML_TOOLS.replace(old, new)))
        return Mutant(Kind.TEMPLATE, "upgrade", [*a[:at], *b[at:]])

    def switched(at: int, value: bool) -> Mutant:
        requests = rendered(agent())
        later = [replace(request, arguments={"thinking": value}) for request in requests[at:]]
        return Mutant(Kind.TEMPLATE, "arguments", [*requests[:at], *later])

    ats = st.integers(1, N_TURNS - 1)
    words = st.sampled_from([("# Functions", "# Tools"), ("<tool_response>", "<result>"), ("To call", "Call")])
    return st.builds(lambda at, pair: upgraded(at, *pair), ats, words) | st.builds(switched, ats, st.booleans())


def retokenised(at: int, places: Sequence[int]) -> Mutant:
    """Give pairs of bytes one token from request `at` on; places from the end of what was sent before."""
    requests = rendered(agent())
    for index in range(at, N_TURNS):
        ids = list(requests[index].ids or ())
        n_old = len(requests[at - 1].ids or ())
        for place in sorted(places):
            ids[n_old - 1 - place : n_old + 1 - place] = [300]
        requests[index] = replace(requests[index], ids=ids, n_reused=None)
    return Mutant(Kind.TOKEN, "merged", requests)


def tokens() -> st.SearchStrategy[Mutant]:
    places = st.lists(st.integers(0, 60).map(lambda n: 2 * n), min_size=1, max_size=3, unique=True)
    return st.builds(retokenised, st.integers(1, N_TURNS - 1), places)


def short(at: int, share: float) -> Mutant:
    requests = rendered(agent())
    n_reused = int(share * (requests[at].n_reused or 0))
    requests[at] = replace(requests[at], n_reused=n_reused)
    return Mutant(Kind.CACHE, "short", requests)


def caches() -> st.SearchStrategy[Mutant]:
    return st.builds(short, st.integers(1, N_TURNS - 1), st.floats(0, 0.99))


def evicted() -> list[Request]:
    requests = clean()
    side = rendered(agent("side"))[0]
    return [*requests[:3], side, replace(requests[3], n_reused=0), *requests[4:]]


def every(put: Put) -> list[Request]:
    bodies = agent()
    for index, body in enumerate(bodies):
        put(body, f"It is 10:0{index}.")
    return bare(bodies)


def remind(messages: list[Body]) -> None:
    messages[-1]["content"] += "\n<reminder>Be brief.</reminder>"


def by_hand() -> list[Mutant]:
    """Return one mutant of every kind, each as it is met in the field."""
    return [
        Mutant(Kind.CLOCK, "the minute in the system text", every(in_system)),
        Mutant(Kind.RANDOM, "call ids made anew", from_here(lambda body: new_ids(body, "x"))),
        Mutant(Kind.ORDER, "tools of a hash map", from_here(lambda body: body["tools"].reverse())),
        Mutant(Kind.SERIALISATION, "arguments respaced", from_here(rearranged((",", ":")))),
        Mutant(Kind.PRESENCE, "null for an empty content", field(2, "content", "", None)),
        Mutant(Kind.WHITESPACE, "results trimmed", versions(in_result, "  x ", "  x")),
        Mutant(Kind.UNICODE, "decomposed on another machine", versions(in_system, "café", "cafe\u0301")),
        Mutant(Kind.PATH, "a home folder", versions(in_tool, "Reads /home/ann/a.py.", "Reads /home/bob/a.py.")),
        Mutant(Kind.ENVIRONMENT, "the working directory", versions(in_system, "cwd: /a/b", "cwd: /tmp/c")),
        Mutant(Kind.EPHEMERAL, "a reminder in each last message", reminded(remind, range(N_TURNS))),
        Mutant(Kind.RETROACTIVE, "an old result pruned", from_here(past("prune", 2))),
        Mutant(Kind.STRUCTURAL, "a note before the last reply", from_here(lambda b: b["messages"].insert(2, NOTE))),
        Mutant(Kind.TOPOLOGY, "a late tool", from_here(lambda body: body["tools"].append(tool("late")))),
        Mutant(Kind.TEMPLATE, "reasoning dropped", rendered(agent(), Template(THINKING))),
        Mutant(Kind.TOKEN, "the last bytes merged", retokenised(AT, [0]).requests),
        Mutant(Kind.CACHE, "evicted by a side request", evicted()),
    ]


NOTE = {"role": "user", "content": "Note: the tests moved."}

DRAWN: dict[Kind, st.SearchStrategy[Mutant]] = {
    Kind.CLOCK: clocks(),
    Kind.RANDOM: randoms(),
    Kind.ORDER: orders(),
    Kind.SERIALISATION: serialisations(),
    Kind.PRESENCE: presences(),
    Kind.WHITESPACE: whitespaces(),
    Kind.UNICODE: unicodes(),
    Kind.PATH: paths(),
    Kind.ENVIRONMENT: environments(),
    Kind.EPHEMERAL: ephemerals(),
    Kind.RETROACTIVE: retroactives(),
    Kind.STRUCTURAL: structurals(),
    Kind.TOPOLOGY: topologies(),
    Kind.TEMPLATE: templates(),
    Kind.TOKEN: tokens(),
    Kind.CACHE: caches(),
}
