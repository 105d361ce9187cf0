"""The bodies a client sent, as they were when it sent them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from .append_only import check_requests
from .blocks import Body, Request, dump
from .report import NotAppendOnly, RequestReport

__all__ = ["RequestRecorder"]


class RequestRecorder:
    """Collects request bodies. Each is copied when it comes: clients go on appending to the list they have sent.

    They are one conversation, `main`, unless they are recorded under other keys.
    """

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._conversations: list[str] = []
        self._declared: dict[int, str] = {}

    def append(self, body: Request | Body, *, conversation: str = "main", declared: str = "") -> None:
        """Record one request of a conversation; `declared` says why it starts over on purpose, as after a compaction.

        A request for a title, a subagent and a second sample of one task are conversations of their own, each under
        its key.

        Raises:
            TypeError: The body has something JSON has no form for.
        """
        request = body if isinstance(body, Request) else Request(body)
        if isinstance(request.body, Mapping):
            request = replace(request, body=dump(request.body))
        if declared:
            self._declared[len(self._requests)] = declared
        self._requests.append(request)
        self._conversations.append(conversation)

    def report(self) -> RequestReport:
        """Say of every request so far whether it extends the one before it."""
        return check_requests(self._requests, conversations=self._conversations, declared=self._declared)

    def fault(self, price: Callable[[Body, Body], list[str]] | None = None) -> str:
        """Say how the requests are not append-only; empty where they are. `price` says what the first break costs."""
        report = self.report()
        if not report.fault:
            return ""
        broken = str(NotAppendOnly(report))
        first = next((pair for pair in report.breaks if pair.previous is not None), None)
        if price is None or first is None or first.previous is None:
            return broken
        bodies = [self._requests[index].body for index in (first.previous, first.index)]
        return "\n".join([broken, *price(*bodies)])

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)
