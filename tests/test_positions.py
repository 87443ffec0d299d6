"""A negative position counts from the end, as in a list, wherever a step is addressed."""

import apps
import pytest

from rewind_nb import Rewind
from rewind_nb.errors import StepNotFoundError


@pytest.fixture
def rw(store):
    return Rewind(apps.loop_app(), store=store)


def test_a_negative_position_is_the_step_that_a_list_of_the_steps_has_there(rw):
    run = rw.run(halt_after=["report"], inputs={"by": 1})
    steps = list(run)
    for n in range(-len(steps), 0):
        assert run[n].seq == steps[n].seq
        assert run.state_at(n) == run.state_at(len(steps) + n)
        fork = rw.fork(run, n, reuse="none")
        assert fork._row.at == len(steps) + n
        assert fork.state == run.state
        assert rw.replay(run, start=n).steps == -n


@pytest.mark.parametrize("far", [4, -99])
def test_a_position_that_there_is_not_is_refused_with_those_that_there_are(rw, far):
    run = rw.run(halt_after=["report"], inputs={"by": 1})
    length = len(run)
    far = length if far > 0 else -length - 1
    said = rf"no step {far}: .*0 to {length - 1}, or from the end -1 to -{length}\."
    for use in (
        lambda: run[far],
        lambda: run.state_at(far),
        lambda: rw.fork(run, far),
        lambda: rw.replay(run, start=far),
    ):
        with pytest.raises(StepNotFoundError, match=said):
            use()
