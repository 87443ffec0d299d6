"""The `rewind` command: the example, its verification, and a look into a store.

Every command is a few lines over the library. What all have in common is in `Command`: a
failure is one paragraph on stderr and exit code 1, its traceback only with `--debug`, and
no registered secret is in either. Burr, pandas and the store are imported by the commands
that need them, so that `rewind --help` answers at once.

`demo` and `verify` write nothing into the current folder. Where the user named no store
(`--store`, `REWIND_STORE`) or artifact folder (`REWIND_ARTIFACT_DIR`) these are in a new
temporary folder, so that any number of them can run side by side: `demo` leaves it for a
look around, `verify` removes it, unless a check failed. The other commands only read.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from rewind_nb import __version__
from rewind_nb._describe import plural
from rewind_nb._secrets import redact
from rewind_nb._visible import visible, visible_lines
from rewind_nb.errors import RewindError

if TYPE_CHECKING:
    from rewind_nb import Store


class Command(click.Command):
    """A command whose failure is a paragraph, or with `--debug` a traceback."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        text = "Show the traceback of a failure."
        self.params.append(click.Option(["--debug"], is_flag=True, help=text))

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; whatever it raises ends here."""
        debug = ctx.params.pop("debug")
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if debug:
                told = visible_lines(redact("".join(traceback.format_exception(error))))
                click.echo(told, err=True)
                ctx.exit(1)
            raise click.ClickException(paragraph(error)) from error


class Commands(click.Group):
    """A group of such commands."""

    command_class = Command


def paragraph(error: BaseException) -> str:
    """An error and its notes as one paragraph; one that is not ours is named by its type.

    Example:
        >>> error = KeyError("total")
        >>> error.add_note("run r_1 stopped")
        >>> paragraph(error)
        "KeyError: 'total'. Run r_1 stopped."
    """
    from rewind_nb._describe import error_line, notes_on, said

    words = said(error) if isinstance(error, RewindError) else error_line(error)
    notes = (note.removeprefix("rewind_nb: ") for note in notes_on(error))
    sentences = (" ".join(s.split()) for s in (words, *(n[:1].upper() + n[1:] for n in notes)))
    text = " ".join(s if s.endswith((".", "?", "!")) else f"{s}." for s in sentences)
    return visible(redact(text))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rewind")
def main() -> None:
    """Record, fork, replay and diff agent pipelines.

    Example: rewind demo
    """


def store_option(command: Any) -> Any:
    """`--store`, as the commands have it that look into one."""
    text = "The store. Default: REWIND_STORE, else the nearest .rewind/runs.db upward."
    return click.option("--store", metavar="PATH", help=text)(command)


# -- the example -------------------------------------------------------------------------


@main.command()
@click.option("--task", metavar="ID", help="Which task. Default: penguins.")
@click.option("--store", metavar="PATH", help="Where the runs go. Default: a temporary folder.")
@click.option("--refresh", is_flag=True, help="Ask the model anew, whatever the store holds.")
@click.option("--isolation", is_flag=True, help="The other example: what a fork need not execute.")
def demo(task: str | None, store: str | None, refresh: bool, isolation: bool) -> None:
    """Run the example, fork it with one field changed, and prove the replay.

    With --isolation it is the trip planner, whose two paths join late: each step of a fork
    is shown as executed, reused or converged, with the reason and what it cost.

    The model is offline unless REWIND_BASE_URL, REWIND_MODEL and REWIND_API_KEY name a
    provider. What the store holds is played back unless --refresh is given.

    Example: rewind demo --task weather --store demo.db
    """
    from rewind_nb import Rewind, Store
    from rewind_nb.demo.isolation import isolation_story
    from rewind_nb.demo.story import table_story, where_to_go, who, workspace

    if isolation and task is not None:
        raise click.UsageError("--task is of the first example, and --isolation shows the other.")
    story = isolation_story() if isolation else table_story(task or "penguins")
    with workspace("demo", store) as place, Store(place.store) as opened:
        click.echo(f"{story.title}\nModel: {who(story.model)}.")
        rw = Rewind(story.app, store=opened, cache="refresh" if refresh else "auto")
        try:
            proof = story.tell(rw, click.echo)
        except Exception as error:
            if rw.last_run is not None:
                show = f"rewind show {rw.last_run.id} --store {place.store}"
                error.add_note(f"To see what was recorded: `{show}`.")
            raise
        click.echo(where_to_go(place, proof, story.notebook))
        if not proof.ok:
            raise click.ClickException("The replay is not identical; the proof above says where.")


@main.command()
@click.option("--task", "names", multiple=True, metavar="ID", help="Which task; all by default.")
def verify(names: tuple[str, ...]) -> None:
    """Check on the example that forks and replays do what they promise.

    Each task is recorded, forked and replayed; every check is printed with its figures.
    The exit code is 0 only if all of them hold.

    Example: rewind verify --task penguins
    """
    from rewind_nb import Store
    from rewind_nb.demo import default_model, find_task, tasks
    from rewind_nb.demo.story import who, workspace
    from rewind_nb.demo.verify import verify_task

    chosen = [find_task(name) for name in names] or tasks()
    model = default_model()
    findings = []
    with workspace("verify") as place, Store(place.store) as opened:
        click.echo(f"Model: {who(model)}.")
        for task in chosen:
            click.echo(f"\n{task.id}: {task.title}")
            for finding in verify_task(task.id, opened, model):
                click.echo(visible(redact(str(finding))))
                findings.append(finding)
    failed = sum(not finding.ok for finding in findings)
    held = f"{len(findings) - failed} of {plural(len(findings), 'check')} hold"
    click.echo(f"\n{held}, {plural(len(chosen), 'task')}, asked {who(model)}.")
    if failed:
        raise click.ClickException(
            f"{failed} failed. The runs are kept: `rewind runs --store {place.store}`."
        )
    place.remove()


# -- the runs as a suite -----------------------------------------------------------------


@main.command()
@click.option("--app", required=True, metavar="MODULE:ATTRIBUTE", help="The application of now.")
@click.option("--check", required=True, metavar="TEXT", help="What a run must pass.")
@store_option
@click.option(
    "--start",
    metavar="STEP",
    default="first",
    help="first, last, an action or its n-th visit as action:n. Default: first.",
)
@click.option(
    "--run", "runs", multiple=True, metavar="ID", help="Which run; all recorded ones by default."
)
@click.option(
    "--samples", metavar="N", type=int, default=1, help="Re-executions of each. Default: 1."
)
@click.option(
    "--stub",
    "stubs",
    multiple=True,
    metavar="TOOL=JSON",
    help="What a tool with an effect returns instead of firing.",
)
@click.option("--live-effects", is_flag=True, help="Fire tools with effects.")
@click.pass_context
def regress(ctx: click.Context, /, **given: Any) -> None:
    """Execute recorded runs again by the code of now, and judge both by a check.

    One line per run, then the totals. The exit code is 0 if no run regressed and every one
    could be judged, else 1; 2 where the command cannot be understood. The re-executions are
    recorded in the store.

    A re-execution from the last step does not see a change in a step before it.

    Example: rewind regress --app booking:build --check "output contains 'confirmed'"
    """
    from rewind_nb._suite import Suite
    from rewind_nb.errors import CheckSyntaxError, ConfigError

    try:
        suite = Suite.of(**given)
    except (ConfigError, CheckSyntaxError) as error:
        raise click.UsageError(paragraph(error), ctx) from error
    with suite:
        found = suite.regress()
        for case in found:
            click.echo(case.words)
        click.echo(f"{found.answer()}; {found.spent()}, {found.cost}")
        if not found.ok:
            raise click.ClickException(suite.advice(found))


# -- looking into a store ----------------------------------------------------------------


@main.command()
@store_option
def runs(store: str | None) -> None:
    """List the runs of a store as a tree of forks.

    Example: rewind runs --store demo.db
    """
    from rewind_nb._text import tree_text

    with reading(store) as opened:
        found = opened.runs()
        click.echo(tree_text(found) if found else f"No run yet in {opened.path}.")


@main.command()
@click.argument("run")
@store_option
def show(run: str, store: str | None) -> None:
    """Show the steps of RUN, an id or the start of one.

    Example: rewind show r_3f --store demo.db
    """
    from rewind_nb._text import run_text

    with reading(store) as opened:
        click.echo(run_text(opened.run(run)))


@main.command()
@click.argument("a")
@click.argument("b")
@store_option
def diff(a: str, b: str, store: str | None) -> None:
    """Compare the runs A and B, step by step and field by field.

    Example: rewind diff r_3f r_a2 --store demo.db
    """
    from rewind_nb._compare import compare
    from rewind_nb._text import diff_text

    with reading(store) as opened:
        click.echo(diff_text(compare(opened.run(a), opened.run(b))))


@main.command()
@store_option
def doctor(store: str | None) -> None:
    """Check a store: its file, and every hash derived again from the bytes.

    The exit code is 1 where anything does not match.

    Example: rewind doctor --store demo.db
    """
    from rewind_nb._about import file_facts, versions

    with reading(store) as opened:
        for name, fact in {**versions(), **file_facts(opened)}.items():
            click.echo(f"{name:<8} {fact}")
        report = opened.verify()
    checked = ", ".join(f"{count} {name}" for name, count in report.checked.items())
    click.echo(f"{'checked':<8} {checked}")
    for problem in report.problems:
        click.echo(f"{'FAIL':<8} {visible(redact(problem))}")
    if not report.ok:
        problems = f"{len(report.problems)} problem(s)"
        raise click.ClickException(f"{problems} in the store. Restore it from a copy.")
    click.echo(f"{'ok':<8} everything matches its hash")


@contextlib.contextmanager
def reading(path: str | None) -> Iterator[Store]:
    """The store, opened so that nothing can be changed or created."""
    from rewind_nb import Store

    with Store(path, read_only=True) as opened:
        yield opened


if __name__ == "__main__":
    main()
