"""The clock, chance and entropy that a step reads: recorded, and played back.

Nothing is changed in the application. From the first `Rewind` on the functions below are
recorded inside a step; everywhere else, and in threads without the step's context, they are
what they always were.

| captured | how |
|---|---|
| `time.time`, `time_ns`, `datetime.now`, `utcnow`, `today`, `date.today` | the C functions themselves, so `from time import time`, pydantic defaults and `pandas.Timestamp.now` count too |
| `time.strftime`, `localtime`, `gmtime` without a time, `clock_gettime(CLOCK_REALTIME)` | likewise |
| `time.ctime`, `asctime` without a time | in their module |
| the functions of `random`: `random`, `choice`, `shuffle`, `gauss`, ... | its global generator, so `from random import choice` counts too |
| `uuid.uuid4`, `secrets.*`, `os.urandom`, `random.SystemRandom` | `os.urandom`, which they call |
| `uuid.uuid1` | whole, as it keeps the last timestamp |
| an unseeded `numpy.random.default_rng()` made in the step | its seed, which comes from `secrets` |

A tape of the clock holds nanoseconds since the epoch, of which each function makes its own
value; the others hold floats, integers or bytes as they were drawn. They are stored like any
other value: what `secrets` gave a step can be read in the store.

Each function has a tape of its own per caller (the top-level package of the code that calls
it) and branch of the step. A read that a change adds or drops shifts no other function, no
other package and no other step. A fork plays back its parent's tapes and reads on live past
their end; so does a resumed run in the step that was interrupted. `cache="refresh"` and
`"off"` read live. In a replay a read more or less than recorded fails nothing by itself (the
step's hash decides) and is noted. A step that seeds the generator (`random.seed`) otherwise
than it was recorded draws what that seed gives.

| never recorded | why |
|---|---|
| reads by logging, and by what it calls (a formatter) | a log line more or less changes nothing |
| reads by the HTTP stack, event loops, threads, databases, Burr, notebooks, tracing, progress bars | they differ from run to run and are no part of what the step computes |
| reads by a module while it is imported | that happens once in a process |
| reads by what protects a connection (`cryptography`, `jwt`, `botocore`, `google.auth`, ...) | signatures and nonces have to be fresh |

| not captured | why | what to do |
|---|---|---|
| `time.monotonic`, `perf_counter`, `process_time`, `thread_time` | they measure this run | keep durations out of the state |
| `from random import random`, `getrandbits`, `gauss`, `seed`, or `from time import ctime`, `asctime` before the first `Rewind` | taken before ours were there | `import random`, `import time`, or import after |
| `os.getrandom` | nothing calls it but who asks for it by name | `os.urandom` |
| `random.Random()` | an instance is the user's own; unseeded, it seeds itself in C | seed it, from `random.random()` for instance |
| `numpy.random.*`, generators made outside of the step, torch | generators of their own | seed them in the step |
| the time zone | it belongs to the machine | use UTC |
| a clock that freezegun freezes | freezegun puts its own classes in the place of the real ones | time-machine |

A step that reads one of these writes something else in a replay, and the proof names the
field. `rewind_nb.now()`, `random()` and `uuid4()` always work.
"""

from __future__ import annotations

import threading

from rewind_nb.capture.ambient._clock import install_clock
from rewind_nb.capture.ambient._random import install_random

_lock = threading.Lock()


def install() -> None:
    """Record what steps read from now on; outside of steps nothing changes.

    It can be called as often as one likes, from any thread.
    """
    with _lock:
        install_random()
        install_clock()
