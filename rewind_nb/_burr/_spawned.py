"""Applications that an action builds and runs, the recursion of Burr's documentation.

Burr gives no sign of them to the application outside. So builders are watched: what one
builds inside a step is recorded there, as ``app-0``, ``app-1`` and so on in the order of
building; elsewhere nothing changes. Hooks, trackers and persisters of such an application
are its own and stay.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from burr.core import Application, ApplicationBuilder

from rewind_nb._burr._wrap import adopt, is_recorded
from rewind_nb._open_step import open_step

_lock = threading.Lock()
_watched: list[bool] = []


def watch_builders() -> None:
    """Watch every builder of this process, once."""
    with _lock:
        if _watched:
            return
        build, abuild = ApplicationBuilder.build, ApplicationBuilder.abuild

        @functools.wraps(build)
        def watched(builder: Any) -> Any:
            return _seen(build(builder))

        @functools.wraps(abuild)
        async def awatched(builder: Any) -> Any:
            return _seen(await abuild(builder))

        ApplicationBuilder.build = watched
        ApplicationBuilder.abuild = awatched
        _watched.append(True)


def _seen(app: Application) -> Application:
    step = open_step()
    if step is not None and not is_recorded(app.graph):
        adopt(app, step)
    return app
