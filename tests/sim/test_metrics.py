"""Every metric against arithmetic on a log of six requests."""

import pickle
from math import sqrt

import pytest

from sim.log import frames
from sim.log.record import Log
from sim.metrics import METRICS, measure
from tests.sim.six_requests import six_requests

# First submission 0, last end 25. Finished: r0 r1 r2 r3 r4; sessions s0 s1 s2 (s3 lost its second turn).
# e2e: 10 7 16 9 5; to first token: 4 2 6 6 4. Groups 0 and 1 complete after 20 and 9, group 2 does not.
# Engine 0: 3 requests, tokens 104 + 60 + 65 = 229, busy 10 + 7 = 17; engine 1: 2, 116 + 41 = 157, busy 18.
BY_HAND = {
    "samples_per_s": 3 / 25,
    "requests_per_s": 5 / 25,
    "output_tokens_per_s": (4 + 6 + 6 + 1 + 5) / 25,
    "goodput_per_s": 3 / 25,  # within 9 s: r1 r3 (just) r4
    "makespan_s": 25,
    "time_to_90pct_s": None,  # ceil(0.9 * 4) = 4 sessions, 3 finish
    "group_completion_p50_s": 14.5,
    "group_completion_p95_s": 9 + 0.95 * 11,
    "group_completion_p99_s": 9 + 0.99 * 11,
    "ttft_p50_s": 4,
    "ttft_p95_s": 6,  # sorted 2 4 4 6 6, position 3.8
    "tpot_mean_s": (6 / 3 + 5 / 5 + 10 / 5 + 1 / 4) / 4,  # r3 has one token
    "e2e_p95_s": 10 + 0.8 * 6,  # sorted 5 7 9 10 16, position 3.8
    "load_requests_max_over_mean": 3 / 2.5,
    "load_requests_max_over_min": 3 / 2,
    "load_requests_cv": 0.5 / 2.5,
    "load_tokens_max_over_mean": 229 / 193,
    "load_tokens_max_over_min": 229 / 157,
    "load_tokens_cv": 36 / 193,
    "load_busy_max_over_mean": 18 / 17.5,
    "load_busy_max_over_min": 18 / 17,
    "load_busy_cv": 0.5 / 17.5,
    "prefix_hit_rate": (96 + 40) / (100 + 150 + 100 + 80 + 60),  # r5 was never admitted
    "prefix_hit_rate_reported": (96 + 3 * 40) / (100 + 150 + 100 + 3 * 80 + 60),  # r3 is admitted at the third attempt
    "queries_per_prompt_token": (100 + 150 + 100 + 3 * 80 + 60) / (100 + 150 + 100 + 80 + 60),
    "prefill_tokens": 100 + 54 + 110 + 40 + 60,
    "prefill_tokens_ideal": 300,
    "recomputed_tokens": 10,
    "preemptions": 1,
    "moved_turns_rate": 0,  # r1 stays with r0's engine; r5 was never admitted
    "reprefilled_tokens": 0,
    "recovery_s": None,  # the fleet stays as it is
    "idle_with_queue_s": 1,  # engine 0 idles 10-13 while r3 waits 9-11
    "tail_idle_share": (5 + 7) / (2 * 25),
    "router_utilisation": 6 / (2 * 25),
    "router_wait_mean_s": 1,  # 0 0 0 1 2 3
    "router_wait_p95_s": 2.75,  # position 4.75
    "signal_age_mean_s": (0 + 0 + 4 + 9) / 4,
    "regret_tokens_per_request": (0 + 96 + 0 + 40) / 4,
    "regret_work": (0 + 0 + 60 + 20) / 4,
    "rejected": 1,
    "failed": 0,
    "unfinished": 0,
    "trained_samples_per_s": 3 / 25,
    "rollout_time_mean_s": (10 + 12) / 2,
    "step_time_mean_s": 25 / 2,
    "staleness_mean": 1 / 3,
    "staleness_max": 1,
    "aborted_samples": 1,
    "aborted_tokens_share": 0,
    "untrained_tokens_share": 1 - 21 / 22,
}


def values(*logs: Log) -> list[dict[str, float | None]]:
    """The metrics of logs, as pairs 0, 1, ..."""
    return measure(frames.read_logs(logs, range(len(logs)))).to_dicts()


def test_every_metric_is_computed_by_hand() -> None:
    """The table above leaves no metric out."""
    assert BY_HAND.keys() == METRICS.keys()


@pytest.mark.parametrize("name", METRICS)
def test_value_by_hand(name: str) -> None:
    """Each metric equals the arithmetic of its definition."""
    assert values(six_requests())[0][name] == (None if BY_HAND[name] is None else pytest.approx(BY_HAND[name]))


def test_pairs_do_not_mix() -> None:
    """A pair's values are those of its log alone, whatever stands beside it."""
    other = six_requests()
    other.numpy("requests")["max_tokens"][0] = 64  # some limit, no metric
    assert values(six_requests(), other, six_requests()) == [
        {**values(six_requests())[0], "pair": pair} for pair in range(3)
    ]


def test_an_engine_without_work_counts() -> None:
    """A third engine that never works enters the loads as zero, and leaves no largest over smallest."""
    log = six_requests()
    log.engine_names.append("http://engine-2")
    log.costs.append(log.costs[0])
    (found,) = values(log)
    assert found["load_requests_max_over_mean"] == pytest.approx(3 / (5 / 3))
    assert found["load_requests_cv"] == pytest.approx(sqrt((16 + 1 + 25) / 27) / (5 / 3))
    assert found["load_requests_max_over_min"] is None
    assert found["tail_idle_share"] == pytest.approx((5 + 7 + 25 - 3) / 75 + 3 / 75)


def test_time_to_90_percent_counts_sessions() -> None:
    """Of ten sessions the ninth to end decides, the tenth may take for ever."""
    log = Log(["http://engine-0"], tick_s=1.0)
    for session, ended in enumerate([5, 3, 8, 1, 2, 9, 4, 7, 6, -1]):
        status = 0 if ended >= 0 else 4
        times = (0, 0, 0, 1, ended) if ended >= 0 else (0, 0, -1, -1, -1)
        log.requests.append(
            (session, session, session, 0, 1, 0, 0, *times, 10, 0, 10, 0, 4, 1, 10, 0, 0, status, 0, -1)
        )
    (found,) = values(log)
    assert found["time_to_90pct_s"] == 9
    assert found["unfinished"] == 1


def test_without_deadline_all_that_finish_are_good() -> None:
    """No deadline means no limit."""
    log = six_requests()
    log.deadline_s = None
    assert values(log)[0]["goodput_per_s"] == pytest.approx(5 / 25)


def test_nothing_happened() -> None:
    """An empty log has counts of zero or no value, and raises nothing."""
    (found,) = values(Log(["http://engine-0"]))
    assert {found[name] for name in METRICS} <= {None, 0}


def test_a_log_travels_between_processes() -> None:
    """Pickled and back, a log gives the same numbers."""
    copy = pickle.loads(pickle.dumps(six_requests()))  # noqa: S301 -- our own bytes
    assert values(copy) == values(six_requests())


def test_tokens_of_aborted_attempts() -> None:
    """A request aborted after 3 of 10 tokens and finished in its next attempt: 3 of 10 were generated in the former."""
    log = Log(["http://engine-0"], tick_s=1.0)
    for attempt, (tokens, status) in enumerate([(3, 3), (7, 0)]):
        times = (10 * attempt, 10 * attempt, 10 * attempt, 10 * attempt + 1, 10 * attempt + tokens)
        log.requests.append((0, 0, 0, 0, 1, attempt, 0, *times, 10, 0, 10, 0, 10, tokens, 10, 0, 0, status, 0, -1))
    (found,) = values(log)
    assert found["aborted_tokens_share"] == pytest.approx(0.3)
    assert found["samples_per_s"] == pytest.approx(1 / 17)
    assert found["untrained_tokens_share"] is None
