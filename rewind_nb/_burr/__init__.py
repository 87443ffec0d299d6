"""The only home of Burr: reading an application, wrapping its graph, running it.

`_state` is the State an action sees and the one Burr holds between steps; `_actions` wraps
each action so that a session records around it; `_machine` builds and steps the
application; `_app` reads what the user built. Burr's hooks and persisters are not relied
on for what is recorded, and `initialize_from` not for forking: in apache-burr 0.43 they
report stale or wrong rows (a sync action under `arun`, an interrupt, a cut-off stream).
"""

from rewind_nb._burr._actions import NOTE
from rewind_nb._burr._app import AppSpec, read_app
from rewind_nb._burr._codes import code_of
from rewind_nb._burr._machine import Machine
from rewind_nb._burr._replaced import Declared, as_action
from rewind_nb._burr._state import refuse_reserved

__all__ = [
    "NOTE", "AppSpec", "Declared", "Machine", "as_action", "code_of", "read_app",
    "refuse_reserved",
]  # fmt: skip
