"""AIBrix's rules over scraped metrics, as decision tables worked by hand from its source at e3e10f9e4."""

import pytest

from policies._protocol import Ended
from policies.aibrix.least_busy_time import LeastBusyTime
from policies.aibrix.least_gpu_cache import LeastGpuCache
from policies.aibrix.least_latency import LeastLatency
from policies.aibrix.least_utilization import LeastUtilization
from policies.aibrix.throughput import Throughput
from tests.policies.worlds import Desk


@pytest.mark.parametrize("cls", [LeastBusyTime, LeastGpuCache, LeastLatency, LeastUtilization, Throughput])
def test_without_the_metric_it_is_random(cls):
    """No metric of any pod: any of them, whatever their load; no pod: none; down pods are not asked."""
    asks_prometheus = cls in (LeastLatency, Throughput)
    desk = Desk(cls(reads_queries=True) if asks_prometheus else cls(), 9, 0, 0)
    assert desk.choose()[1] == "no_report"
    assert desk.tied == [0, 1, 2]
    desk.up(False, True, True)
    desk.choose()
    assert desk.tied == [1, 2]
    desk.up(False, False, False)
    assert desk.choose() == (None, "no_engine")


def test_throughput_is_read_as_0():
    """What Prometheus answers has no plain value: any pod, whatever its means."""
    desk = Desk(Throughput(), 0, 0)
    desk.report(0, ended=Ended(100, 50, 0.1, 1.0))
    desk.report(1, ended=Ended(9000, 50, 0.1, 1.0))
    assert desk.choose() == (0, "read_as_0")
    assert desk.tied == [0, 1]


def test_throughput_with_what_prometheus_says():
    """Twice the prompt plus the output, lowest, ties uniform; running requests do not count; without it: left out."""
    desk = Desk(Throughput(reads_queries=True), 0, 0, 0)
    desk.report(0, ended=Ended(100, 50, 0.1, 1.0))  # 250
    assert desk.choose() == (0, "throughput")
    desk.report(1, running=500, ended=Ended(20, 200, 0.1, 1.0))  # 240, and very busy
    assert desk.choose() == (1, "throughput")
    desk.report(2, ended=Ended(120, 0, 0.1, 1.0))  # 240
    assert desk.choose() == (1, "throughput")
    assert desk.tied == [1, 2]
    desk.up(True, False, True)
    assert desk.choose() == (2, "throughput")
    desk.report(2)  # started anew: it has no ended requests
    assert desk.choose() == (0, "throughput")


def test_least_latency():
    """Means of all pods read as 0: prefill plus decode, whatever the sizes; ties last; a pod without is left out."""
    desk = Desk(LeastLatency(), 9, 0, 0)
    desk.report(0, ended=Ended(100, 100, 1.0, 10.0))
    assert desk.choose() == (0, "least_latency")
    # Three times the prompt in half as much time more: quicker by the token, and not chosen.
    desk.report(1, ended=Ended(300, 100, 1.5, 10.0))
    assert desk.choose() == (0, "least_latency")
    desk.report(2, waiting=999, ended=Ended(1, 1, 2.0, 9.0))
    assert desk.choose() == (2, "least_latency")
    desk.up(True, True, False)
    assert desk.choose() == (0, "least_latency")


def test_least_latency_with_what_prometheus_says():
    """Scaled to the mean request of all pods: prefill by prompt tokens, decode by output tokens; ties last."""
    desk = Desk(LeastLatency(reads_queries=True), 0, 0, 0)
    desk.report(0, ended=Ended(100, 100, 1.0, 10.0))
    assert desk.choose() == (0, "least_latency")
    # Means 200 and 100: pod 0 takes 2 + 10 = 12, pod 1 takes 1.5 / 300 * 200 + 10 = 11.
    desk.report(1, ended=Ended(300, 100, 1.5, 10.0))
    assert desk.choose() == (1, "least_latency")
    # A queue of any length does not count, and neither does what runs.
    desk.report(1, running=99, waiting=999, queued_tokens=10**6, ended=Ended(300, 100, 1.5, 10.0))
    assert desk.choose() == (1, "least_latency")
    desk.report(2, ended=Ended(300, 100, 1.5, 10.0))
    assert desk.choose() == (2, "least_latency")
    desk.up(True, True, False)
    assert desk.choose() == (1, "least_latency")


def test_least_latency_of_pods_without_tokens():
    """A pod whose mean is 0 is taken for the mean of the others; where all are 0, for 10 and 100 tokens."""
    desk = Desk(LeastLatency(reads_queries=True), 0, 0)
    desk.report(0, ended=Ended(0, 0, 1.0, 2.0))
    desk.report(1, ended=Ended(0, 0, 0.5, 2.0))
    assert desk.choose() == (1, "least_latency")
    # Means are pod 1's alone, 50 and 10: pod 0 has 1 + 2 = 3, pod 1 has 0.5 + 2.6 = 3.1.
    desk.report(1, ended=Ended(50, 10, 0.5, 2.6))
    assert desk.choose() == (0, "least_latency")


def test_least_busy_time():
    """With the metric the first of the least busy; nothing collects it, so by default it decides nothing."""
    desk = Desk(LeastBusyTime(has_metric=True), 0, 0, 0)
    desk.report(0, busy_share=1.0)
    desk.report(1, busy_share=0.5)
    assert desk.choose() == (1, "least_busy_time")
    desk.report(2, busy_share=0.5)
    assert desk.choose() == (1, "least_busy_time")
    assert not desk.tied
    desk.report(0, busy_share=0.0)
    assert desk.choose() == (0, "least_busy_time")
    desk.up(False, True, True)
    assert desk.choose() == (1, "least_busy_time")
    blind = Desk(LeastBusyTime(), 0, 0)
    blind.report(0, busy_share=1.0)
    blind.report(1, busy_share=0.0)
    assert blind.choose() == (0, "no_report")
    assert blind.tied == [0, 1]


def test_least_utilization():
    """With xLLM, which has the metric: lowest, ties uniform, 0 counts as a reading. Over vLLM it is random."""
    desk = Desk(LeastUtilization(engine="xllm"), 0, 0, 0)
    desk.report(0, busy_share=0.7)
    assert desk.choose() == (0, "least_utilization")
    desk.report(1, busy_share=0.0)
    assert desk.choose() == (1, "least_utilization")
    desk.report(2, busy_share=0.0)
    desk.choose()
    assert desk.tied == [1, 2]
    desk.up(True, False, True)
    assert desk.choose() == (2, "least_utilization")
    blind = Desk(LeastUtilization(), 0, 0)
    blind.report(0, busy_share=1.0)
    blind.report(1, busy_share=0.0)
    assert blind.choose()[1] == "no_report"


def test_least_gpu_cache():
    """Lowest reading, random of equals; a pod without one is passed over."""
    desk = Desk(LeastGpuCache(), 9, 0, 0)
    desk.report(0, kv_share=0.5)
    assert desk.choose() == (0, "least_gpu_cache")
    desk.report(1, kv_share=0.2)
    assert desk.choose() == (1, "least_gpu_cache")
    desk.report(2, kv_share=0.2)
    assert desk.choose() == (1, "least_gpu_cache")
    assert desk.tied == [1, 2]
    desk.up(True, False, True)
    assert desk.choose() == (2, "least_gpu_cache")
