"""Which function of the clock a frame is calling.

time-machine asks for the time and does not say for whom, so the name is read off the
instruction that calls, once for each place in the code. Where it does not tell (a function
out of a dict, a call from C), the name is `time.*`. The same code gets the same names every
time, which is all that the key of a tape needs.
"""

from __future__ import annotations

import dis
import time
from datetime import date
from types import BuiltinFunctionType, CodeType, FrameType
from typing import NamedTuple

UNKNOWN = "time.*"
_CLOCKS = {
    "clock_gettime": "time.clock_gettime",
    "clock_gettime_ns": "time.clock_gettime_ns",
    "gmtime": "time.gmtime",
    "localtime": "time.localtime",
    "now": "datetime.now",
    "strftime": "time.strftime",
    "time": "time.time",
    "time_ns": "time.time_ns",
    "today": "date.today",
    "utcnow": "datetime.utcnow",
}
_MANY = 10_000  # functions with a read in them; a notebook makes new ones with every cell


class _Variable(NamedTuple):
    """The callee is what this variable holds at the time."""

    name: str


_Callee = str | _Variable
_sites: dict[int, tuple[CodeType, dict[int, _Callee]]] = {}  # id(code) -> code, by offset


def clock_function(frame: FrameType) -> str:
    """The function of the clock that a frame is calling, such as ``datetime.now``."""
    code, offset = frame.f_code, frame.f_lasti
    known = _sites.get(id(code))
    if known is None:
        if len(_sites) > _MANY:
            _sites.clear()
        known = _sites[id(code)] = (code, {})
    callee = known[1].get(offset)
    if callee is None:
        callee = known[1][offset] = _callee(code, offset)
    return callee if isinstance(callee, str) else _held_by(frame, callee.name)


def _callee(code: CodeType, offset: int) -> _Callee:
    loads = _loads_callee(code, offset)
    name = None if loads is None else loads.argval
    if loads is None or not isinstance(name, str):
        return UNKNOWN
    if loads.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        return _CLOCKS.get(name, UNKNOWN)
    variable = loads.opname.startswith(("LOAD_FAST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"))
    return _Variable(name) if variable else UNKNOWN


def _loads_callee(code: CodeType, offset: int) -> dis.Instruction | None:
    """The instruction that put the callee on the stack, beneath its arguments."""
    before = [i for i in dis.get_instructions(code) if i.offset <= offset]
    call = before.pop()
    if call.opname not in ("CALL", "CALL_KW", "PRECALL"):
        return None
    while before and before[-1].opname in ("PRECALL", "KW_NAMES"):
        before.pop()
    above = (call.arg or 0) + (call.opname == "CALL_KW")  # the names lie on top
    while before and above > 0:
        last = before.pop()
        above -= dis.stack_effect(last.opcode, last.arg, jump=False)
    while before and before[-1].opname == "PUSH_NULL":
        before.pop()
    return before[-1] if before and above == 0 else None


def _held_by(frame: FrameType, variable: str) -> str:
    value = frame.f_locals.get(variable, frame.f_globals.get(variable))
    if not isinstance(value, BuiltinFunctionType):
        return UNKNOWN
    owner = value.__self__
    if owner is time or (isinstance(owner, type) and issubclass(owner, date)):
        return _CLOCKS.get(value.__name__, UNKNOWN)
    return UNKNOWN
