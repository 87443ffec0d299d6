"""What `rewind verify` asserts about the example: evidence, and one function per check.

`gather` records a task, forks it at its third step with one field changed and replays the
unchanged run; the checks only look at what that left behind. A check looks at the rows and
files themselves wherever it can, not at what the library says of them: a file is read and
hashed again, calls are counted one by one, the published numbers are computed anew by
`recompute`. Each check is a sentence, and each can fail (tests/test_verify.py breaks all).

They hold for a model that answers differently every time: the parent is recorded anew
whatever the store holds, and nothing is expected of the wording.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from rewind_nb import _codec, _path
from rewind_nb._compare import Diff
from rewind_nb._describe import error_line, notes_on, plural, said
from rewind_nb._outcome import step_hash
from rewind_nb._proof import Proof
from rewind_nb._rewind import Rewind
from rewind_nb._run import Artifact, Run, Step
from rewind_nb._steps import Call
from rewind_nb._store import Store
from rewind_nb.capture.chat import ChatModel
from rewind_nb.demo import HALT_AFTER, INPUTS, build
from rewind_nb.demo.recompute import compare_analysis, compare_page, recompute
from rewind_nb.errors import NotFoundError, RewindError

NODE, SEQ = "analyse", 2  # the third node
LOWER = 0.85  # enough that another group leads, little enough to be believed


class Edit(NamedTuple):
    """The one field that the fork changes: where, and its value before and after."""

    path: str
    before: float
    after: float


class Verdict(NamedTuple):
    """Whether a check holds, and the figures that say so."""

    ok: bool
    figures: str


class Finding(NamedTuple):
    """A verdict with the check's sentence.

    Example:
        >>> print(Finding("the fork wrote another artifact", True, "12ab -> 34cd"))
        ok    the fork wrote another artifact: 12ab -> 34cd
    """

    what: str
    ok: bool
    figures: str

    def __str__(self) -> str:
        return f"{'ok' if self.ok else 'FAIL':<4}  {self.what}: {self.figures}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the checks look at.

    Attributes:
        run: the parent, recorded live.
        fork: of `run`, at the third step, with `edit` as its one change.
        diff: from `run` to `fork`.
        proof: of the unchanged replay of `run`.
        before: the footprint of `run` before it was forked.
    """

    run: Run
    fork: Run
    diff: Diff
    proof: Proof
    edit: Edit
    before: tuple[str, ...]


Check = Callable[[Evidence], Verdict]


def verify_task(task: str, store: Store, model: ChatModel | None = None) -> Iterator[Finding]:
    """Run, fork and replay one task, and check what came of it.

    Args:
        task: the id of a task.
        store: where the runs go.
        model: who answers; `default_model()` if None.

    Yields:
        A finding per check; a single failed one where the pipeline itself failed.

    Example:
        >>> findings = list(verify_task("penguins", store))  # doctest: +SKIP
    """
    try:
        evidence = gather(task, store, model)
    except Exception as error:  # noqa: BLE001  (a step may raise anything; the next task still runs)
        words = "; ".join([said(error), *notes_on(error)])
        yield Finding("the pipeline runs, forks and replays", False, words)
        return
    for check in CHECKS:
        yield judge(check, evidence)


def gather(task: str, store: Store, model: ChatModel | None = None) -> Evidence:
    """Record a task live, fork it with one field changed, replay it unchanged."""
    rw = Rewind(build(task, model=model), store=store)
    run = rw.run(halt_after=HALT_AFTER, inputs=INPUTS, cache="refresh")
    before = footprint(run)
    edit = edit_of(run)
    fork = rw.fork(run, at=NODE, patch={edit.path: edit.after})
    proof = rw.replay(run)
    return Evidence(run, fork, rw.diff(run, fork), proof, edit, before)


def edit_of(run: Run) -> Edit:
    """The change that the example makes: the leading group's total, 15 percent lower."""
    groups = run[NODE].writes["analysis"]["groups"]
    leader = max(groups, key=lambda name: groups[name]["total"])
    total = groups[leader]["total"]
    path = _path.render(["analysis", "groups", leader, "total"])
    return Edit(path, total, round(total * LOWER, 3) if total else 1.0)


def footprint(run: Run) -> tuple[str, ...]:
    """Everything that the store holds of a run, hashed: its row, steps, calls and files."""
    now, row = run.refresh(), run.store.row(run.id)
    return (
        f"run {row.row_hash} {row.root} {_sha256(repr(row).encode())}",
        *(f"step {s.row.row_hash} {s.row.chain} {_digest(s.to_dict())}" for s in now),
        *(f"artifact {a.name} {a.sha256} {_sha256(a.bytes)} {a.path}" for a in now.artifacts),
    )


def judge(check: Check, evidence: Evidence) -> Finding:
    """What a check says; what it cannot read is a failure of the check."""
    what = check.__name__.replace("_", " ")
    try:
        return Finding(what, *check(evidence))
    except (RewindError, OSError, LookupError, ValueError) as error:
        return Finding(what, False, error_line(error))


# -- the checks --------------------------------------------------------------------------


def every_step_has_a_hashed_output(e: Evidence) -> Verdict:
    """At least seven steps, and each hash follows from the values the step wrote."""
    hashed = [s for s in e.run if s.writes and _rederives(s)]
    figures = f"{len(hashed)} of {len(e.run)} steps, at least 7 wanted"
    return Verdict(len(hashed) == len(e.run) >= 7, figures)


def the_artifact_is_a_real_file(e: Evidence) -> Verdict:
    """On disk, not empty, with the hash that the run and its state name."""
    made, data = _artifact(e.run), _file(e.run)
    published = e.run.state["published"]
    ok = bool(data) and _sha256(data) == made.sha256 == published["sha256"]
    return Verdict(ok, f"{made.name}, {len(data)} bytes, sha256 {_sha256(data)[:12]}")


def the_fork_starts_at_node_3(e: Evidence) -> Verdict:
    """One or two steps are the parent's own rows; three or more have another output."""
    origin, ours, theirs = e.fork.origin, e.run.steps, e.fork.steps
    inherited = [s for s in theirs if s.source == "inherited" and s.run_id == e.run.id]
    outputs = {(s.action, s.visit): s.hash for s in ours}
    affected = [s for s in theirs[SEQ:] if outputs.get((s.action, s.visit)) != s.hash]
    placed = origin is not None and (origin.parent, origin.at) == (e.run.id, SEQ)
    ok = placed and e.fork[SEQ].action == NODE and 1 <= len(inherited) <= 2 and len(affected) >= 3
    return Verdict(ok, f"{NODE!r}, {len(inherited)} inherited, {len(affected)} affected")


def the_diff_names_node_3_and_the_exact_field(e: Evidence) -> Verdict:
    """The first divergence is the edit: its step, its field, its two values."""
    first = e.diff.divergence
    if first is None:
        return Verdict(False, "the diff has no divergence")
    found = (first.seq, first.action, first.path, first.before, first.after)
    return Verdict(found == (SEQ, NODE, *e.edit), str(first))


def the_replay_played_every_call_back(e: Evidence) -> Verdict:
    """As many played back as the parent had, each from a recorded one, and none live."""
    recorded, replayed = _calls(e.run), _calls(e.proof.run)
    played = [c for c in replayed if c.source in ("cache", "tool-cache") and c.replayed_from]
    live = max(len(replayed) - len(played), e.proof.live_calls)
    ok = live == 0 and 0 < len(recorded) == len(played)
    return Verdict(ok, f"{len(played)} of {len(recorded)} played back, {plural(live, 'live call')}")


def the_replay_spent_no_token(e: Evidence) -> Verdict:
    """None in the replay, where the parent paid for some."""
    usage = e.run.usage
    paid = None if usage is None else usage.total_tokens
    ok = e.proof.tokens == 0 and paid is not None and paid > 0
    by = ", ".join(dict.fromkeys(str(c.answered_by) for c in _calls(e.run) if c.kind == "model"))
    figures = f"{_known(e.proof.tokens)} tokens, the parent's {_known(paid)}, answered by {by}"
    return Verdict(ok, figures)


def the_replay_has_identical_hashes(e: Evidence) -> Verdict:
    """Step by step, and the proof says the same."""
    ours, theirs = ([(s.action, s.hash) for s in run] for run in (e.run, e.proof.run))
    same = sum(a == b for a, b in zip(ours, theirs, strict=False))
    ok = e.proof.ok and e.proof.original.id == e.run.id and len(ours) == len(theirs) == same > 0
    return Verdict(ok, f"{same} of {len(ours)} step hashes, proof {'ok' if e.proof else 'not ok'}")


def the_replay_wrote_a_byte_identical_artifact(e: Evidence) -> Verdict:
    """Two files, one content."""
    ours, theirs = _file(e.run), _file(e.proof.run)
    apart = _artifact(e.run).path != _artifact(e.proof.run).path
    figures = f"{len(theirs)} bytes, sha256 {_sha256(ours)[:12]} and {_sha256(theirs)[:12]}"
    return Verdict(apart and bool(ours) and ours == theirs, figures)


def the_fork_wrote_another_artifact(e: Evidence) -> Verdict:
    """The same name, another hash."""
    ours, theirs = _sha256(_file(e.run)), _sha256(_file(e.fork))
    ok = ours != theirs and _artifact(e.run).name == _artifact(e.fork).name
    return Verdict(ok, f"sha256 {ours[:12]} -> {theirs[:12]}")


def the_parent_is_unchanged(e: Evidence) -> Verdict:
    """Every row of it hashes as it did before the fork."""
    now = footprint(e.run)
    differing = sum(a != b for a, b in zip(e.before, now, strict=False))
    root = str(e.run.store.row(e.run.id).root)[:12]
    figures = f"{len(e.before)} hashes before, {len(now)} after, {differing} differ, root {root}"
    return Verdict(e.before == now, figures)


def the_published_numbers_are_recomputed_by_pandas(e: Evidence) -> Verdict:
    """Those in the file that was published, and those of the analysis behind it."""
    numbers = recompute(e.run["plan"].writes["plan"])
    page = compare_page(_file(e.run).decode(), numbers)
    analysis = compare_analysis(e.run[NODE].writes["analysis"], numbers)
    wrong = (*page.wrong, *analysis.wrong)
    figures = f"{page.compared} on the page, {analysis.compared} analysed, {len(wrong)} wrong"
    return Verdict(page.ok and analysis.ok, "; ".join([figures, *wrong[:3]]))


CHECKS: tuple[Check, ...] = (
    every_step_has_a_hashed_output,
    the_artifact_is_a_real_file,
    the_fork_starts_at_node_3,
    the_diff_names_node_3_and_the_exact_field,
    the_replay_played_every_call_back,
    the_replay_spent_no_token,
    the_replay_has_identical_hashes,
    the_replay_wrote_a_byte_identical_artifact,
    the_fork_wrote_another_artifact,
    the_parent_is_unchanged,
    the_published_numbers_are_recomputed_by_pandas,
)


# -- looking at it -----------------------------------------------------------------------


def _rederives(step: Step) -> bool:
    values = [(key, _digest(value)) for key, value in step.writes.items()]
    return values == list(step.row.writes) and step_hash(step.row) == step.hash


def _calls(run: Run) -> list[Call]:
    return [call for step in run for call in step.calls]


def _artifact(run: Run) -> Artifact:
    if not run.artifacts:
        raise NotFoundError(f"run {run.id} made no artifact.", run_id=run.id)
    return run.artifacts[-1]


def _file(run: Run) -> bytes:
    return _artifact(run).path.read_bytes()


def _digest(value: Any) -> str:
    return _codec.digest(_codec.encode(value))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _known(tokens: int | None) -> str:
    return "an unknown number of" if tokens is None else str(tokens)
