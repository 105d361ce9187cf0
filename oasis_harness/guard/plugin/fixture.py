"""What the fixture `oasis_snapshot` is: a prompt is handed over, and the test fails unless it is the recorded one."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from oasis_harness.errors import BadSnapshotName, OasisError

from ..review import Checker
from ..targets import Given, Subject

if TYPE_CHECKING:
    from oasis_harness.registry import Skills, Tools

__all__ = ["OasisSnapshot"]


class OasisSnapshot:
    """The fixture: call it with a session, an agent, a conversation or a head, or with a request body."""

    def __init__(self, checker: Checker, test: str, node: str) -> None:
        self._checker = checker
        self._test = test
        self._node = node
        self._has_default = False

    def __call__(self, given: object, name: str | None = None, dialects: Given | None = None) -> None:
        """Fail unless the prompt of `given` is the recorded one, in each of `dialects`.

        A head, and a conversation that has sent nothing yet, stand for the prompt up to the first user's words. A
        conversation that was sent in another dialect is rendered anew, event by event. A request body, a dict with
        messages as OpenAI, Anthropic or Ollama take it, stands for all that a server reads of it.
        """
        __tracebackhide__ = True
        self._compare(Subject.of(given), name, dialects)

    def head(
        self,
        *,
        system: str = "",
        tools: "Tools | Sequence[Mapping[str, Any]] | None" = None,
        skills: "Skills | None" = None,
        name: str | None = None,
        dialects: Given | None = None,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        """Fail unless the prompt head that a session would open with is the recorded one; no engine is needed.

        `tools` may be the list of JSON objects that goes to an API, in OpenAI's form or in Anthropic's. `arguments` are
        switches of the template, such as `enable_thinking`.
        """
        __tracebackhide__ = True
        self._compare(Subject.of_head(system, tools, skills, arguments or {}), name, dialects)

    def _compare(self, subject: Subject, name: str | None, dialects: Given | None) -> None:
        __tracebackhide__ = True
        try:
            name = self._default_name() if name is None else name
        except OasisError as error:
            complaint = self._checker.not_evaluated(self._test, error)
        else:
            complaint = self._checker.check(subject, name, dialects)
        if complaint:
            pytest.fail(complaint, pytrace=False)

    def _default_name(self) -> str:
        if self._has_default:
            raise BadSnapshotName("this test compares two prompts without a name.", remedy="Give name= to the second.")
        self._has_default = True
        return self._checker.claim(self._test, self._node)
