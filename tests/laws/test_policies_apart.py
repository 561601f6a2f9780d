"""L5: a policy cannot change the workload; L6: with one engine a policy cannot change anything."""

import numpy as np
from hypothesis import HealthCheck, given, settings

from sim.replication import replicate
from tests.strategies import KEYED, MEMBERS, POLICIES, cell_of, resolved_worlds

some = settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

GIVEN = ("request", "session", "group", "turn", "is_last", "prompt_tokens", "max_tokens", "output_tokens", "status")


def logs(resolved, kinds):
    for kind in kinds:
        scope = resolved["client"]["key_scope"] if kind in KEYED else "session"
        client = {**resolved["client"], "key_scope": scope}
        yield replicate(cell_of({**resolved, "client": client, "router": {"policy": {"kind": kind}}}), 0)


@some
@given(resolved_worlds(engines=3, policies=KEYED))
def test_a_policy_cannot_change_the_workload(resolved):
    """L5: ids, prompts, limits and realised lengths are equal under every policy, and so are arrivals without a cap."""
    seen = []
    for log in logs(resolved, POLICIES):
        requests = log.numpy("requests")
        order = np.argsort(requests["request"])
        columns = [requests[name][order].tolist() for name in GIVEN]
        first = requests["turn"][order] == 0
        is_capped = any(name.startswith("max_sessions") for name in resolved["client"])
        seen.append((columns, [] if is_capped else requests["submitted"][order][first].tolist()))
    assert all(each == seen[0] for each in seen)


@some
@given(resolved_worlds(engines=1, policies=KEYED))
def test_one_engine_makes_policies_equal(resolved):
    """L6: every policy that accepts one engine gives the same requests, groups and engines tables."""
    kinds = [kind for kind in POLICIES if MEMBERS[kind].min_engines == 1]
    first, *others = logs(resolved, kinds)
    for log in others:
        assert (log.requests, log.groups, log.engines) == (first.requests, first.groups, first.engines)
