"""Arrival processes: their rates, their spread, what scales, what stays when groups are added."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._arrivals import AtOnce, Diurnal, Gamma, Ladder, OnOff, Poisson, Recorded, Rung
from sim.workload._located import located
from sim.workload.trace import Trace

COUNT = 20_000
KINDS = {
    "at_once": AtOnce("at_once"),
    "poisson": Poisson("poisson", 2.0),
    "gamma": Gamma("gamma", 2.0, 3.0),
    "metronome": Gamma("gamma", 2.0, 0.0),
    "on_off": OnOff("on_off", 4.0, 10.0, 30.0),
    "on_off drawn": OnOff("on_off", 4.0, 10.0, 30.0, 1.0, "exponential"),
    "diurnal": Diurnal("diurnal", 2.0, 0.8, period_s=100.0, start_s=25.0),
    "ladder": Ladder("ladder", (Rung(1.0, 50.0), Rung(0.0, 20.0), Rung(5.0, 50.0))),
}


def times(kind, count=COUNT, seed=3):
    return kind.times(np.random.Generator(np.random.PCG64(seed)), count)


def is_poisson(points, rate):
    """Whether gaps are exponential of that rate, at 99.9 %."""
    return stats.kstest(np.diff(points) * rate, "expon").pvalue > 0.001


@pytest.mark.parametrize("name", KINDS)
def test_times_do_not_fall_and_stay_when_groups_are_added(name):
    """L5: the first groups arrive when they did."""
    few, many = times(KINDS[name], 50), times(KINDS[name], 500)
    assert few.tolist() == many.tolist()[:50]
    assert (np.diff(many) >= 0).all()
    assert many[0] >= 0


DOUBLED = {
    "poisson": Poisson("poisson", 1.0),
    "gamma": Gamma("gamma", 1.0, 3.0),
    "on_off": OnOff("on_off", 2.0, 20.0, 60.0),
    "on_off drawn": OnOff("on_off", 2.0, 20.0, 60.0, 0.5, "exponential"),
    "diurnal": Diurnal("diurnal", 1.0, 0.8, period_s=200.0, start_s=50.0),
    "ladder": Ladder("ladder", (Rung(0.5, 100.0), Rung(0.0, 40.0), Rung(2.5, 100.0))),
}


@pytest.mark.parametrize("name", DOUBLED)
def test_all_seconds_times_two(name):
    """L9: rates halved and periods doubled, every arrival comes at twice its time, exactly."""
    assert times(DOUBLED[name], 300).tolist() == (2 * times(KINDS[name], 300)).tolist()


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
def test_gamma_gaps_have_their_mean_and_spread(cv):
    """Gaps follow the gamma law of that mean and variation; 1 is Poisson."""
    gaps = np.diff(times(Gamma("gamma", 2.0, cv)))
    assert stats.kstest(gaps, stats.gamma(cv**-2, scale=cv**2 / 2.0).cdf).pvalue > 0.001


def test_a_spread_of_zero_is_a_metronome():
    """Equal gaps."""
    assert times(KINDS["metronome"], 4).tolist() == [0.5, 1.0, 1.5, 2.0]


def test_on_and_off_have_their_own_rates():
    """On: Poisson of the one rate; off: nothing, or Poisson of the other."""
    phase = times(KINDS["on_off"]) % 40.0
    assert (phase <= 10.0).all()
    both = times(OnOff("on_off", 4.0, 10.0, 30.0, 1.0))
    share = (both % 40.0 < 10.0).mean()
    low, high = stats.binom.interval(0.999, COUNT, 40 / 70)
    assert low <= share * COUNT <= high


def test_drawn_periods_have_their_means():
    """With exponential periods the long-run rate is that of fixed ones, and counts vary more."""
    fixed, drawn = (times(OnOff("on_off", 4.0, 10.0, 30.0, 0.0, each)) for each in ("fixed", "exponential"))
    assert COUNT / fixed[-1] == pytest.approx(1.0, rel=0.03)
    assert COUNT / drawn[-1] == pytest.approx(1.0, rel=0.15)
    spread = [np.var(np.bincount((each // 40.0).astype(int))) for each in (fixed, drawn)]
    assert spread[1] > 3 * spread[0]


def test_a_day_has_its_peak_and_its_trough():
    """Over the upper half of a day the rate averages 1 + 2 swing / pi of its mean."""
    phase = (times(KINDS["diurnal"]) - 25.0) % 100.0
    upper = 0.5 + 0.8 / math.pi
    low, high = stats.binom.interval(0.999, COUNT, upper)
    assert low <= (phase < 50.0).sum() <= high


def test_without_a_swing_days_are_poisson():
    """The same times as a constant rate."""
    assert times(Diurnal("diurnal", 2.0, 0.0), 500) == pytest.approx(times(Poisson("poisson", 2.0), 500), rel=1e-12)


def test_a_ladder_climbs_and_stays_on_its_last_rung():
    """Each rung has its rate, one of rate 0 nothing, the last one goes on."""
    at = times(KINDS["ladder"])
    assert not ((at > 50.0) & (at <= 70.0)).any()
    assert is_poisson(at[at > 70.0], 5.0)
    low, high = stats.poisson.interval(0.999, 50.0)
    assert low <= (at <= 50.0).sum() <= high


def test_recorded_times_start_at_zero(tmp_path):
    """Milliseconds of a column, sorted, at twice their rate."""
    (tmp_path / "at.csv").write_text("ms,x\n3000,1\n1000,1\n2000,1\n")
    kind = located(Recorded("recorded", "at.csv", "ms", unit="ms", rate_scale=2.0), tmp_path)
    assert times(kind, 3).tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(ScenarioError, match="holds 3 times, 4 groups are to arrive"):
        times(kind, 4)


def test_sessions_of_a_trace_arrive_by_any_process(tmp_path):
    """The recorded turns at other times: of a process, or of another file, which counts for the cell's hash."""
    (tmp_path / "at.csv").write_text("s\n4\n6\n")
    rows = [{"session_id": name, "output_tokens": 5, "prompt_tokens": [10, 30]} for name in "ab"]
    (tmp_path / "turns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    by_file = Trace("turns.jsonl", arrivals=Recorded("recorded", "at.csv", "s"))
    assert by_file.files(tmp_path) == [tmp_path / "turns.jsonl", tmp_path / "at.csv"]
    assert by_file.generate(Streams(1), tmp_path).arrival_s.tolist() == [0.0, 2.0]
    bursts = Trace("turns.jsonl", arrivals=Gamma("gamma", 2.0, 0.0))
    assert bursts.generate(Streams(1), tmp_path).arrival_s.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Poisson("poisson", 0.0), "groups_per_s"),
        (lambda: Gamma("gamma", 1.0, -1.0), "cv"),
        (lambda: OnOff("on_off", 1.0, 0.0, 1.0), "on_s"),
        (lambda: Diurnal("diurnal", 1.0, 1.1), "swing"),
        (lambda: Ladder("ladder", ()), "rungs"),
        (lambda: Ladder("ladder", (Rung(1.0, 5.0), Rung(0.0, 5.0))), "rungs"),
        (lambda: Rung(-1.0, 5.0), "groups_per_s"),
        (lambda: Recorded("recorded", "f", "c", rate_scale=0.0), "rate_scale"),
        (lambda: times(OnOff("on_off", 1e-9, 1e-3, 1.0)), "groups_per_s"),
        (lambda: times(Ladder("ladder", (Rung(1e-9, 5.0),))), "rungs"),
    ],
)
def test_what_cannot_arrive_is_refused(make, rule):
    """By the name of the field."""
    with pytest.raises(ScenarioError, match=f"^{rule}"):
        make()


@given(st.floats(0.1, 100), st.floats(0, 1), st.integers(0, 5))
def test_a_day_inverts_its_own_integral(rate, swing, seed):
    """The integral of the rate up to an arrival is a point of the unit process."""
    at = times(Diurnal("diurnal", rate, swing, period_s=60.0), 50, seed)
    turn = 2 * math.pi / 60.0
    passed = rate * (at + swing / turn * (1 - np.cos(turn * at)))
    assert passed == pytest.approx(times(Poisson("poisson", 1.0), 50, seed), rel=1e-6, abs=1e-6)
