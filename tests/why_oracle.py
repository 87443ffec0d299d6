"""What `diff.why` must say of two runs, found from their stored steps in the plainest way.

A link of a chain is true where it was observed: in one of the two runs the first step was the
last to touch the key before the second one, and the second one read it, or the conditions did
on the way to what only that run did. What only one run did, and read, it read otherwise than
the other run would have where they parted: there the other run may be the one that touched it.
"""

from typing import NamedTuple

import pytest

from rewind_nb._path import join
from rewind_nb._run import read_overrides
from rewind_nb._trajectory import after_step, survives
from rewind_nb.errors import NotFoundError

MOST = 64


class Did(NamedTuple):
    """A step, what it read, and the state entering and leaving it, by hash."""

    step: object
    reads: frozenset
    before: dict
    after: dict

    @property
    def place(self):
        return self.step.address

    @property
    def to(self):
        return (self.step.transition or {}).get("to")

    @property
    def asked(self):
        return frozenset(dict((self.step.transition or {}).get("reads", ())))

    def saw(self, key):
        """Whether it looked at a key, be it that it saw all of them and not this one."""
        return self.step.row.reads_all or key in self.reads

    def puts(self, key):
        """Whether an override set the key as the step was entered."""
        given = self.step.override
        overrides = () if given is None else read_overrides(self.step.store, given)
        return any(o.kind == "state" and key in o.value for o in overrides)

    def touches(self, key):
        row = self.step.row
        return key in dict(row.writes) or (key in self.before and not survives(key, row.deleted))


def told(run):
    """The steps of a run, by their address, in order."""
    now, found = dict(run.entering_manifest(run[0])), {}
    for step in run.steps:
        row = step.row
        before = now if row.state is None else dict(row.state)
        now = dict(after_step(tuple(before.items()), row.deleted, row.writes))
        reads = frozenset(dict(row.reads)) | (frozenset(before) if row.reads_all else frozenset())
        found[step.address] = Did(step, reads, before, now)
    return found


def last_touch(run, key, until=None):
    """The step that a key had its value from where *until* reads it, at the end if None."""
    last = None
    for did in run.values():
        if did.puts(key):
            last = did.place, "put"
        if did.place == until:
            return last
        if did.touches(key):
            last = did.place, "left"
    return last


def assert_why(diff, at):
    """`diff.why` gives for each changed key what led to it, all of it, and nothing else.

    Args:
        at: the address of the step with the override, which is all that sets the runs apart.
    """
    runs = told(diff.a), told(diff.b)
    ends = diff.a.final_manifest, diff.b.final_manifest
    changed = {key for key in {**ends[0], **ends[1]} if ends[0].get(key) != ends[1].get(key)}
    assert changed == set(diff.outcome.changed)
    for key in changed:
        path = join("", key)
        chains = diff.why(path)
        assert chains
        assert any(chain[0].address == at for chain in chains), (key, chains)
        assert all(chain[-1].path == path for chain in chains)
        assert {chain[0].address for chain in chains} == {at}, (key, chains)
        for chain in chains:
            assert_observed(runs, chain)
        if len(chains) < MOST and in_one_order(*runs):
            assert_complete(runs, key, chains)
    for key in {k for run in runs for did in run.values() for k in did.before} - changed:
        listed = any(
            c.path == key or c.path.startswith((f"{key}.", f"{key}[")) for c in diff.changes
        )
        if not listed and not any(touched_alone(*pair, key) for pair in (runs, runs[::-1])):
            with pytest.raises(NotFoundError):
                diff.why(key)


def in_one_order(run, other):
    """Whether what both did, they did in one order; else not all chains lead on."""
    return [p for p in run if p in other] == [p for p in other if p in run]


def touched_alone(run, other, key):
    return any(did.touches(key) for place, did in run.items() if place not in other)


def assert_observed(runs, chain):
    for link, following in zip(chain, chain[1:], strict=False):
        assert any(observed(*both, link, following) for both in (runs, runs[::-1])), (link, chain)


def observed(run, other, link, following):
    """Whether a link was seen in a run."""
    place, key = following.address, link.path
    if place not in run:
        return False
    had, _ = last_touch(run, key, place) or ("", "")
    if run[place].saw(key) and had == link.address:
        return True
    if place in other and in_one_order(run, other):
        return False
    asking = parting(run, other, place)  # what sent this run there, and the other elsewhere
    if key in run[asking].asked and link.address in touching(run, other, key, asking):
        return True
    beside = common_before(run, other, place)[-1]
    since = had != (last_touch(run, key, next_place(run, beside)) or ("",))[0]
    read = run[place].saw(key) and not since  # not what a step of this run alone had left
    return read and link.address in touching(run, other, key, beside)


def touching(run, other, key, place):
    """Who each of the runs had a key from as it left a step of both."""
    found = [last_touch(r, key, next_place(r, place)) or ("", "") for r in (run, other)]
    return [who for who, _ in found]


def common_before(run, other, place):
    """The steps of both runs before one of this run only."""
    places = [*run]
    return [p for p in places[: places.index(place)] if p in other]


def parting(run, other, place):
    """The last step of both after which they went different ways, before one of this run only."""
    return [p for p in common_before(run, other, place) if run[p].to != other[p].to][-1]


def next_place(run, place):
    places = [*run, None]
    return places[places.index(place) + 1]


def assert_complete(runs, key, chains):
    """A chain ends at each step that left the key as a run ended with it, and did so otherwise."""
    ends = {chain[-1].address for chain in chains}
    assert changers(runs, key, None) <= ends, (key, chains)
    for place in ends:
        if all(place in run for run in runs):
            before = {
                (c[-2].address, c[-2].path) for c in chains if c[-1].address == place and c[1:]
            }
            own = [k for run in runs for k in run[place].reads if run[place].puts(k)]
            for read in runs[0][place].reads & runs[1][place].reads - {*own}:
                if runs[0][place].before.get(read) != runs[1][place].before.get(read):
                    assert {(c, read) for c in changers(runs, read, place)} <= before, (
                        read,
                        chains,
                    )


def changers(runs, key, until):
    """The steps that each run had a key from, where they left it otherwise than in the other."""
    found = []
    for run, other in (runs, runs[::-1]):
        place, how = last_touch(run, key, until) or (None, None)
        if place is None or how == "put":
            continue
        if place in other and run[place].after.get(key) == other[place].after.get(key):
            continue
        if place not in other:
            common = common_before(run, other, place)
            if common and run[place].after.get(key) == other[common[-1]].after.get(key):
                continue
        found.append(place)
    alone = [p for p in found if not all(p in run for run in runs)]
    if len(alone) == 2 and same_parting(runs, *alone):
        found = alone[1:]  # the second took the place of the first
    return set(found)


def same_parting(runs, first, second):
    """Whether two steps, one of each run alone, come after the same step of both."""
    common = common_before(*runs, first), common_before(*runs[::-1], second)
    return common[0][-1:] == common[1][-1:]
