"""Each kind of toy application, recorded."""

import apps

from rewind_nb import Rewind

RECORDERS = {
    "loop": lambda s: _record(apps.loop_app(), s, halt_after=["report"], inputs={"by": 1}),
    "branch": lambda s: _record(apps.branch_app(), s, halt_after=["summarise"]),
    "async": lambda s: _record(apps.async_app(), s, halt_after=["choose"]),
    "human": lambda s: _human(s),
    "class": lambda s: _record(apps.class_app(), s, halt_after=["pick"], inputs={"tone": "warm"}),
}


def _record(app, store, **given):
    rw = Rewind(app, store=store)
    return rw, rw.run(**given)


def _human(store):
    rw = Rewind(apps.human_app(), store=store)
    return rw, apps.run_human_app(rw)
