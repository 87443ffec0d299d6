"""The booking agent's model: what it answers follows from the prompt, its sway and its seed."""

from rewind_nb.demo import booking


def answers(fares, **given):
    """What a new model decides about each fare, asked one after the other."""
    model = booking.BookingModel(**given)
    chat = booking.booking_model(model)
    decisions = [chat.chat(f'What now? {{"fare": {fare}}}').json()["decision"] for fare in fares]
    assert model.calls == len(fares)
    return decisions


def test_without_sway_it_books_up_to_its_limit_and_no_further():
    assert answers([450, 1000.0, 1000.01, 1450]) == ["book", "book", "wait", "wait"]


def test_with_sway_it_hesitates_only_as_near_to_its_limit_as_that():
    assert answers([799] * 50, sway=200.0) == ["book"] * 50
    assert answers([1201] * 50, sway=200.0) == ["wait"] * 50
    near = answers([1000] * 50, sway=200.0)
    assert {"book", "wait"} == set(near)


def test_the_answers_of_a_seed_come_in_a_fixed_order():
    first, second, other = (answers([1000] * 20, sway=200.0, seed=s) for s in (1, 1, 2))

    assert first == second
    assert first != other
