"""A process to be killed anywhere, and the application it runs.

``python crash_app.py`` reads commands, one JSON object a line, and forks a child for each
that records, forks or resumes a run. What is acknowledged is printed at once:

    run r_1       the run's id
    began 3       step 3 began, so steps 0 to 2 are committed
    answered 3    the tool call of step 3 returned to the action, so its answer is committed
    ended         the verb returned
    refused ...   it raised
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from burr.core import ApplicationBuilder, State, action, default, expr  # noqa: E402

from rewind_nb import Rewind, Store, tool  # noqa: E402

STEPS = 6


def say(line):
    os.write(1, f"{line}\n".encode())


@tool
def look_up(n: int, log: str) -> dict:
    with open(log, "a") as made:
        made.write(f"{n}\n")
    return {"n": n, "text": f"{n} is {'even' if n % 2 == 0 else 'odd'}. " * 40}


@action(reads=["n", "log", "chat"], writes=["n", "chat"])
def go(state: State) -> State:
    n = state["n"]
    say(f"began {n}")
    found = look_up(n, state["log"])
    say(f"answered {n}")
    return state.append(chat=found["text"]).update(n=n + 1)


@action(reads=["chat"], writes=["report"])
def report(state: State) -> State:
    say(f"began {STEPS}")
    return state.update(report=f"{len(state['chat'])} lines")


def build(log=""):
    return (
        ApplicationBuilder()
        .with_actions(go, report)
        .with_transitions(("go", "go", expr(f"n < {STEPS}")), ("go", "report", default))
        .with_state(n=0, chat=[], log=str(log))
        .with_entrypoint("go")
        .build()
    )


def execute(command):
    """One verb in a process of its own."""
    if command.get("unsafe"):
        break_transactions()
    rw = Rewind(build(command["log"]), store=Store(command["path"]))
    rw.on(lambda event: say(f"run {event.run_id}") if event.name == "run_started" else None)
    if command["verb"] == "run":
        rw.run()
    elif command["verb"] == "fork":
        rw.fork(command["run"], ("go", 3), output={"n": 3, "chat": ["other"]})
    else:
        rw.resume(command["run"])
    say("ended")


def break_transactions():
    """A store that writes its rows one by one, what they refer to last."""
    import contextlib

    from rewind_nb._store import Batch, _writer

    statements = Batch.statements

    def one_by_one(raw, given):
        for statement in given:
            if "contents" in statement.sql:  # the rows that refer to it are there by now
                time.sleep(0.01)
            raw.executemany(statement.sql, statement.rows)

    Batch.statements = lambda self, recent: statements(self, recent)[::-1]
    _writer.transaction = lambda raw: contextlib.nullcontext()
    _writer.execute = one_by_one


def main():
    children = []
    say("ready")
    for line in sys.stdin:
        command = json.loads(line)
        if command["verb"] == "wait":
            for child in children:
                os.waitpid(child, 0)
            children.clear()
            say("waited")
            continue
        child = os.fork()
        if child == 0:
            try:
                execute(command)
            except BaseException as error:
                say(f"refused {error!r}")
            finally:
                os._exit(0)
        children.append(child)
        say(f"child {child}")


if __name__ == "__main__":
    main()
