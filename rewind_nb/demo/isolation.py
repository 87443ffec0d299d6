"""The trip planner told in a terminal: what a fork executes, what it takes over, and why.

Three forks of one recording: a change on one of the two paths; the same change with every
step executed again, which rolls the other path's dice too; and a change that comes to nothing.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

from rewind_nb._describe import plural
from rewind_nb._proof import Proof
from rewind_nb._rewind import Rewind
from rewind_nb._run import Run, Step
from rewind_nb._text import brief, how
from rewind_nb._text._shown import WIDTH, cell, page
from rewind_nb.demo import default_model, travel
from rewind_nb.demo.story import Story

NOTEBOOK = Path("notebooks") / "04_isolation.ipynb"
NODE = "weigh_weather"
CHANGE = {"outlook.wet_days": 0.58}  # what December has; October has 0.4
NO_ROOM = {"code": "none", "total": 0.0}

PATHS = """\
  read_request -> look_up_days -> weigh_weather -> plan_outdoors or plan_indoors -.
       '-------> draw_offer -> describe_room, reserve ------------------------> compose -> publish"""


def isolation_story() -> Story:
    """The trip planner; offline, the model words every answer anew, as a provider's does."""
    model = default_model(jitter=0.0 if os.environ.get("REWIND_BASE_URL") else 1.0)
    title = textwrap.fill(f"A trip planner: {travel.REQUEST}", WIDTH)
    return Story(title, model, travel.build(model=model), tell_isolation, NOTEBOOK)


def tell_isolation(rw: Rewind, say: Callable[[str], object]) -> Proof:
    """Record the trip planner, fork it three ways, and replay a fork; say what came of it.

    Args:
        rw: of an application that `travel.build` made.
        say: is given one block of text at a time.

    Returns:
        The proof of the first fork.

    Example:
        >>> proof = tell_isolation(Rewind(travel.build(), store=":memory:"), print)  # doctest: +SKIP
    """
    say(f"\n1. Record: nine steps, on two paths that join late\n{PATHS}")
    run = rw.run()
    say(page(totals(run)))

    say("\n2. Fork: what if October were as wet as December? One field on one path is another")
    fork = rw.fork(run, NODE, patch=CHANGE)
    say(f"  rw.fork(run, {NODE!r}, patch={CHANGE})\n")
    say(page([*why_table(fork), *totals(fork)]))

    say("\n3. The same change, with every step after it executed again")
    stub = {"reserve_room": NO_ROOM}
    again = rw.fork(run, NODE, patch=CHANGE, reuse="none", cache="refresh", effects=stub)
    say(f"  rw.fork(run, {NODE!r}, patch=..., reuse='none', cache='refresh', effects={{...}})\n")
    say(page([*contrast_table(run, fork, again), "", *rolled(run, again)]))
    say("  `reserve_room` got a stub: without one it is refused, for it would book another room.")

    say("\n4. Fork: a day of the record is corrected, which comes to the same outlook")
    warmer = {"days[0].high_c": run["look_up_days"].writes["days"][0]["high_c"] + 1}
    nothing = rw.fork(run, "look_up_days", patch=warmer)
    say(f"  rw.fork(run, 'look_up_days', patch={warmer})\n")
    say(page([*why_table(nothing), *totals(nothing)]))

    say("\n5. Why the letter of the first fork is another: every chain back to the override")
    say(page(chains(rw, run, fork)))
    proof = rw.replay(fork)
    say("\n6. Replay of that fork, which executes the reused steps too, without a model")
    say(textwrap.fill(repr(proof), WIDTH, initial_indent="  ", subsequent_indent="  "))
    return proof


def why_table(fork: Run) -> Iterator[str]:
    """A line for each step: what the fork did about it, what that cost, and why."""
    yield "  seq step             how        live tokens  why"
    for step in fork:
        live, tokens = _cost(step)
        what = (
            f"  {step.seq:>3} {cell(step.action, 16)} {cell(how(step), 10)} {live:>4} {tokens:>6}  "
        )
        why = textwrap.wrap(fork.explanation.of(step) or "", WIDTH - len(what))
        for start, line in zip_longest([what], why, fillvalue=" " * len(what)):
            yield start + line


def contrast_table(run: Run, fork: Run, again: Run) -> Iterator[str]:
    """Two forks side by side: what each did about a step, and whether that came to the same."""
    yield f"  {'':<20} {'the fork of 2':<34} everything again"
    half = f"{'how':<10} live tokens  {'output':<9}"
    yield f"  {'seq step':<20} {half}  {half}".rstrip()
    for one, other in zip(fork, again, strict=True):
        left, right = (_half(run, step) for step in (one, other))
        yield f"  {one.seq:>3} {cell(one.action, 16)} {left}  {right}".rstrip()
    left, right = (_half_total(run, side) for side in (fork, again))
    yield f"  {'':<20} {left}  {right}"


def rolled(run: Run, again: Run) -> Iterator[str]:
    """What another fork got on the path that has nothing to do with the change."""
    yield "  What the change had nothing to do with, before and after everything was executed again:"
    for action, key in (("draw_offer", "offer"), ("describe_room", "welcome")):
        for sign, side in (("-", run), ("+", again)):
            yield f"    {action if sign == '-' else '':<14} {sign} {brief(side[action].writes[key], 78)}"


def chains(rw: Rewind, run: Run, fork: Run) -> Iterator[str]:
    """The ways from the override to the letter."""
    for links in rw.diff(run, fork).why("letter"):
        yield "  " + " -> ".join(f"{link.action} {link.path}" for link in links)


def totals(run: Run) -> Iterator[str]:
    """What a run executed and paid for."""
    executed = sum(how(step) == "executed" for step in run)
    live = sum(step.total_calls[0] for step in run if how(step) == "executed")
    spent = None if run.usage is None else run.usage.total_tokens
    tokens = "unknown" if spent is None else f"{spent:,}"
    yield f"  {executed} of {plural(len(run), 'step')} executed, {plural(live, 'live call')}, tokens: {tokens}"
    yield from (f"  wrote {made.name} for this run ({made.source})" for made in run.artifacts)


def _half(run: Run, step: Step) -> str:
    live, tokens = _cost(step)
    return f"{cell(how(step), 10)} {live:>4} {tokens:>6}  {cell(_output(run, step), 9)}"


def _half_total(run: Run, fork: Run) -> str:
    other = sum(_output(run, step) != "the same" for step in fork)
    live = sum(step.total_calls[0] for step in fork if how(step) == "executed")
    spent = None if fork.usage is None else fork.usage.total_tokens
    return f"{'':<10} {live:>4} {'?' if spent is None else spent:>6}  {f'{other} changed':<9}"


def _cost(step: Step) -> tuple[str, str]:
    """Live calls and tokens, where its run paid for them."""
    if step.source in ("inherited", "reused", "override"):
        return "-", "-"
    total = None if step.total_usage is None else step.total_usage.total_tokens
    return str(step.total_calls[0]), "?" if total is None else str(total or "-")


def _output(run: Run, step: Step) -> str:
    """Whether a step came to what the parent's step had come to."""
    hashes = {(s.action, s.visit): s.hash for s in run}
    return "the same" if hashes.get((step.action, step.visit)) == step.hash else "changed"
