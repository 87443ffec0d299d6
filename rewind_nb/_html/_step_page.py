"""A step: what it was given, what it did, what it asked, and how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rewind_nb._describe import describe_override
from rewind_nb._html._markup import Child, Html, join, note, row, table, tag, text
from rewind_nb._html._parts import (
    action_name,
    chip,
    count,
    error_box,
    facts,
    heading,
    mono,
    number,
    page,
    quoting,
    seconds,
    sha,
    source_chip,
    spent,
    status_chip,
    title,
    when,
)
from rewind_nb._html._tasks import sections, uncaptured
from rewind_nb._html._value import mapping, shown
from rewind_nb._run import read_overrides
from rewind_nb._text import PAID_ELSEWHERE
from rewind_nb.capture._context import RecordedCalls

if TYPE_CHECKING:
    from rewind_nb._steps import Call, Step

__all__ = ["step_html"]

MAX_CALLS = 50_000  # characters of markup
MAX_MESSAGES = 12
MAX_CHUNKS = 8  # shown without folding
MAX_STREAM = 12_000  # characters of markup
MAX_DEPTH = 4  # of calls inside calls that is drawn


def step_html(step: Step) -> str:
    """A step as one self-contained piece of HTML, without script.

    Example:
        >>> "rw-override" in step_html(fork["analyse"])  # doctest: +SKIP
        True
    """
    return page(
        heading(
            tag("span", *_name(step)),
            source_chip(step.source),
            status_chip(step.status),
        ),
        _facts(step),
        _override(step),
        tag("div", quoting(step.reason), class_="rw-line") if step.reason else None,
        uncaptured(step),
        _error(step),
        _section("Inputs", step.inputs, "step.inputs"),
        _section("Read", step.reads, "step.reads"),
        _line("Looked for and did not find: ", ", ".join(step.absent)),
        _section("Wrote", step.writes, "step.writes"),
        _deleted(step),
        _result(step),
        _stream(step),
        _line("Hidden state, not seen by the record: ", ", ".join(step.hidden_state)),
        sections(step),
        _calls(step),
    )


def _name(step: Step) -> list[Child]:
    """Its number and action; inside a task its address, for numbers repeat there."""
    if step.path:
        return ["Step ", tag("b", mono(step.address, 200))]
    return [f"Step {step.seq} ", action_name(step)]


def _facts(step: Step) -> Html:
    own = step.source not in PAID_ELSEWHERE
    who = mono(step.executed_key[0])
    (live, played), inside = step.total_calls, sum(map(len, step.tasks.values()))
    return facts(
        join("of run ", who) if own else join("executed by ", who),
        f"attempt {step.attempt + 1}" if step.attempt else None,
        f"step {step.seq} of its task" if step.path else None,
        count(live, "live call"),
        f"{played} played back" if played else None,
        spent(step.total_usage),
        "its tasks included" if inside else None,
        seconds(step.duration_s),
        f"{when(step.started_at)} UTC",
        join("hash ", sha(step.hash)),
    )


def _override(step: Step) -> Html | None:
    """What the step was given in place of what was recorded."""
    if step.override is None:
        return None
    given = read_overrides(step.store, step.override)
    words = text("; ".join(map(describe_override, given)), 600)
    return tag("div", chip("override", "✎", "override"), " ", tag("b", words), class_="rw-line")


def _error(step: Step) -> Html | None:
    error = step.error
    if error is None:
        return None
    raw = join(title("Raw output"), _pre(error.raw)) if error.raw is not None else None
    trace = _fold("traceback", _pre(error.traceback[-3_600:])) if error.traceback else None
    return error_box(error.type, error.message, raw, trace)


def _section(name: str, values: dict[str, object], source: str) -> Html | None:
    if not values:
        return None
    return join(title(name), mapping(values, f"… more fields than fit; {source} has them all"))


def _line(words: str, names: str) -> Html | None:
    return tag("div", words, mono(names, 400), class_="rw-line") if names else None


def _deleted(step: Step) -> Html | None:
    if step.deleted is None:
        return None
    rule, names = next(iter(step.deleted.items()))
    words = "Deleted all but: " if rule == "keep" else "Deleted: "
    return _line(words, ", ".join(names) or "nothing")


def _result(step: Step) -> Html | None:
    """The result, unless it is what was written under the same names."""
    result = step.result
    if result is None or result == {} or step.row.result is None:
        return None
    if isinstance(result, dict) and set(result) <= {key for key, _ in step.row.writes}:
        return tag("div", "Its result holds fields of the same names.", class_="rw-line rw-dim")
    return join(title("Result"), shown(result))


def _stream(step: Step) -> Html | None:
    """The chunks that went out."""
    chunks = step.stream
    if chunks is None:
        return None
    rows = (row(number(n), shown(chunk)) for n, chunk in enumerate(chunks))
    left_out = "… more chunks than fit; step.stream has them all"
    listed = table([number("chunk"), "value"], rows, left_out, MAX_STREAM)
    if len(chunks) > MAX_CHUNKS:
        listed = _fold(f"all {len(chunks):,}", listed)
    return join(title(f"Streamed {count(len(chunks), 'chunk')}"), listed if chunks else None)


# -- calls ----------------------------------------------------------------------------


def _calls(step: Step) -> Html | None:
    if not step.calls:
        return None
    kept: list[Html] = []
    room = MAX_CALLS
    names = call_names(step.calls)
    for call, depth in _nested(step.calls):
        made = _call(call, names[call.index])
        for _ in range(min(depth, MAX_DEPTH)):
            made = tag("div", made, class_="rw-in")
        room -= len(made)
        if room < 0:
            left = count(len(step.calls) - len(kept), "more call")
            kept.append(note(f"… {left}; step.calls has them all"))
            break
        kept.append(made)
    return join(title("Calls"), *kept)


def call_names(calls: Iterable[Call]) -> dict[int, str]:
    """What to call each: ``model call 0`` is the one that ``call=0`` of a fork means.

    Models and tools are numbered apart, as that argument counts them, and attempts at one
    call share its number. Other kinds cannot be addressed and have none.
    """
    rows = [call._row for call in calls]  # noqa: SLF001
    recorded = RecordedCalls(rows)
    numbers = {
        (kind, call.branch, call.ordinal): n
        for kind in ("model", "tool")
        for n, call in enumerate(recorded.logical(kind))
    }
    names: dict[int, str] = {}
    attempts: Counter[tuple[str, str, int]] = Counter()
    for call in sorted(rows, key=lambda call: call.idx):
        place = (call.kind, call.branch, call.ordinal)
        attempts[place] += 1
        again = f", attempt {attempts[place]}" if attempts[place] > 1 else ""
        names[call.idx] = (
            f"{call.kind} call {numbers[place]}{again}" if place in numbers else call.kind
        )
    return names


def _nested(calls: Iterable[Call]) -> Iterator[tuple[Call, int]]:
    """Each call in the order made, those made in a tool right after it and one deeper."""
    known = {call.index for call in calls}
    below: dict[int | None, list[Call]] = {}
    for call in sorted(calls, key=lambda call: call.index, reverse=True):
        below.setdefault(call.parent if call.parent in known else None, []).append(call)
    waiting = [(call, 0) for call in below.get(None, [])]
    while waiting:
        call, depth = waiting.pop()
        yield call, depth
        waiting += [(inner, depth + 1) for inner in below.get(call.index, [])]


def _call(call: Call, name: str) -> Html:
    said: list[Child] = [tag("b", name), " "]
    said += [mono(call.model or call.name, 100), " ", source_chip(call.source), " "]
    if call.status != "complete" and call.source != "refused":  # which says it
        said += [status_chip(call.status), " "]
    if call.mismatched_model:
        said += [chip(f"answered by {call.answered_by}", "!", "warn"), " "]
    took = f"{spent(call.usage)}, " if call.kind == "model" else ""
    why = f", {call.reason}" if call.reason else ""
    said.append(tag("span", f"{took}{seconds(call.latency_s)}{why}", class_="rw-dim"))
    inner = tag("div", *_exchange(call), class_="rw-inner")
    return tag("details", tag("summary", *said), inner)


def _exchange(call: Call) -> list[Child]:
    """What was asked and answered: messages of a model, else request and response."""
    error = error_box(call.error.type, call.error.message) if call.error else None
    messages = call.messages
    if not messages:
        return [title("Request"), shown(call.request), *_answer(call), error]
    asked = [_message(message) for message in messages[-MAX_MESSAGES:]]
    earlier = len(messages) - len(asked)
    left_out = note(f"… {count(earlier, 'earlier message')}; call.messages has them all")
    return [left_out if earlier else None, *asked, *_answer(call), error]


def _message(message: object) -> Html:
    if not isinstance(message, dict) or not isinstance(message.get("content"), str):
        return shown(message)
    role = str(message.get("role", "message"))
    return join(title(text(role, 40)), _pre(message["content"]))


def _answer(call: Call) -> list[Child]:
    if call.response is None:
        return []
    if call.text is not None:
        return [title("Answer"), _pre(call.text)]
    return [title("Response"), shown(call.response)]


def _pre(words: str) -> Html:
    return tag("pre", text(words, 3_600), class_="rw-pre rw-mono")


def _fold(name: str, content: Html) -> Html:
    return tag("details", tag("summary", name), content)
