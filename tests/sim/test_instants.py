"""The agenda: calls in the order of their ticks and kinds, with SimPy's events and processes among them."""

import pytest

from sim.instants import ANSWER, FORM, SUBMIT, Clock


def test_calls_of_an_instant_come_by_kind_then_id_then_serial_number():
    clock, calls = Clock(), []
    for tick, priority in ((7, FORM), (7, SUBMIT + 2), (5, FORM), (7, SUBMIT + 1), (7, ANSWER + 9), (7, SUBMIT + 1)):
        clock.at(tick, priority, lambda value: calls.append((clock.now, *value)), (priority, len(clock.agenda)))
    clock.run_out()
    expected = [
        (5, FORM, 2),
        (7, ANSWER + 9, 4),
        (7, SUBMIT + 1, 3),
        (7, SUBMIT + 1, 5),
        (7, SUBMIT + 2, 1),
        (7, FORM, 0),
    ]
    assert calls == expected


def test_a_call_knows_its_number():
    clock, seen = Clock(), []
    numbers = [clock.at(tick, SUBMIT, lambda _: seen.append(clock.happening)) for tick in (3, 1, 2)]
    clock.run_out()
    assert seen == [numbers[1], numbers[2], numbers[0]]


def test_processes_of_simpy_run_among_calls():
    """A process that waits for ticks 4 and 8, beside a call at 6; ``run`` stops where it is told, and goes on."""
    clock, seen = Clock(), []

    def process():
        for _ in range(2):
            yield clock.timeout(4)
            seen.append(("process", clock.now))
        return "done"

    ended = clock.process(process())
    clock.at(6, SUBMIT, lambda value: seen.append((value, clock.now)), "call")
    clock.run(7)
    assert (clock.now, seen) == (7, [("process", 4), ("call", 6)])
    assert clock.run(ended) == "done"
    clock.run()
    assert (clock.now, seen) == (8, [("process", 4), ("call", 6), ("process", 8)])


def test_a_process_that_fails_is_heard():
    clock = Clock()

    def process():
        yield clock.timeout(1)
        raise ArithmeticError("broken")

    clock.process(process())
    with pytest.raises(ArithmeticError, match="broken"):
        clock.run_out()
