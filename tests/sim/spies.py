"""Policies that write down what they are asked and told, for the tests of client and router."""

from dataclasses import replace

from policies._protocol import Policy
from sim.router.spec import RouterSpec


class Spy(Policy):
    """Round robin by request number; notes each request, and what it hears of it."""

    def __init__(self):
        self.asked = []
        self.heard = []

    def choose(self, request, fleet, now, pick):
        self.asked.append((now, request))
        return fleet.available[request.id % len(fleet.available)], "turn", 0

    def dispatched(self, request, engine):
        self.heard.append(("dispatched", request.id, engine.index, engine.in_flight))

    def completed(self, request, engine):
        self.heard.append(("completed", request.id, engine.index, engine.in_flight))


class KeyedSpy(Spy):
    """A spy that reads a routing key."""

    key_headers = ("x-smg-routing-key",)


class Refusing(Spy):
    """Refuses every third request."""

    def choose(self, request, fleet, now, pick):
        if request.id % 3 == 2:
            return None, "no_engine", 0
        return super().choose(request, fleet, now, pick)


class Given:
    """A router of a scenario whose policy is this very one."""

    def __init__(self, policy, around):
        self.policy = policy
        self.around = around

    def make_policy(self):
        return self.policy


def under(cell, policy):
    """The cell with a policy that the test holds."""
    assert isinstance(cell.router, RouterSpec)
    return replace(cell, router=Given(policy, cell.router.around))
