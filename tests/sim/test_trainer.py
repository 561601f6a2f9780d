"""Rollout steps: barriers, over-sampling, partial rollouts, filters, staleness, and new weights.

An engine with steps of 10 ms and room for all gives each request a token a step: a request of L tokens takes 10 L ms
whatever else runs, so that steps have closed forms.
"""

import numpy as np
import pytest

from sim.log.record import ABORTED, FINISHED, FLUSH
from sim.replication import Streams, replicate
from tests.strategies import cell_of, world

MS = 1_000_000
STEP = 10 * MS
ROOM = {"kv_tokens": 10**7, "max_num_seqs": 4096, "max_num_batched_tokens": 10**6}
LENGTHS = {"kind": "lognormal", "median": 40, "sigma": 1.0}


def job(training, workload=None, client=None, engine=None, **parts):
    """A cell of one roomy engine under a trainer."""
    resolved = world(
        engine=ROOM | (engine or {}),
        workload={"groups": 40, "samples_per_group": 1, "output_tokens": LENGTHS, "max_tokens": 1000}
        | (workload or {}),
        client=client or {},
        **parts,
    )
    return cell_of(resolved | {"training": training})


def tables(cell, **options):
    """Requests, groups and steps of one replication."""
    log = replicate(cell, 0, **options)
    return (log.numpy(name) for name in ("requests", "groups", "steps"))


def lengths_of(cell):
    """Time of each group's slowest sample, ticks."""
    workload = cell.workload.generate(Streams(cell.seed, 0), cell.base)
    longest = np.zeros(workload.groups, dtype=np.int64)
    for session in map(workload.session, range(workload.sessions)):
        longest[session.group] = max(longest[session.group], sum(turn.output_tokens for turn in session.turns))
    return longest * STEP


# -- steps and barriers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [1, 4])
def test_a_barrier_waits_for_the_slowest_group(samples):
    """Steps of ten groups in order of the data; each takes as long as its longest sample, and the next one follows."""
    cell = job({"groups_per_step": 10}, {"samples_per_group": samples})
    requests, groups, steps = tables(cell)
    longest = lengths_of(cell).reshape(4, 10).max(axis=1)
    assert steps["end"].tolist() == np.cumsum(longest).tolist()
    assert steps["start"].tolist() == [0, *steps["end"][:-1].tolist()]
    assert steps["accepted"].tolist() == [10] * 4
    assert steps["version"].tolist() == [0, 1, 2, 3]
    assert not steps["aborted"].any()
    assert not steps["age_sum"].any()
    assert groups["arrived"].tolist() == np.sort(np.repeat(steps["start"], 10)).tolist()
    assert (requests["status"] == FINISHED).all()
    assert steps["tokens"].sum() == requests["output_tokens"].sum()


def test_training_and_updates_take_their_time():
    """Each step but the last is followed by 2 s of training and 0.5 s of update, in which nothing runs."""
    training = {"groups_per_step": 10, "train_s": 2.0, "update": {"time_s": 0.5}}
    _, _, steps = tables(job(training))
    assert (steps["updated"][:-1] - steps["end"][:-1]).tolist() == [2500 * MS] * 3
    assert steps["start"][1:].tolist() == steps["updated"][:-1].tolist()


def test_a_run_may_end_before_its_groups_do():
    """Two steps of ten use twenty of forty groups; the others never arrive."""
    requests, groups, steps = tables(job({"groups_per_step": 10, "steps": 2}))
    assert len(steps["step"]) == 2
    assert steps["updated"][-1] == -1
    assert sorted(groups["group"].tolist()) == list(range(20))
    assert len(requests["request"]) == 20


def test_the_last_step_may_be_short():
    """Forty groups make three steps of twelve and one of four."""
    _, _, steps = tables(job({"groups_per_step": 12}))
    assert steps["accepted"].tolist() == [12, 12, 12, 4]


# -- over-sampling -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("drawn", "samples"), [(16, 1), (20, 1), (20, 4)])
def test_oversampling_ends_at_an_order_statistic(drawn, samples):
    """Of M groups that start together the step takes the first R to end: it lasts the R-th smallest of their times."""
    training = {"groups_per_step": 10, "oversampling_batch": drawn, "unfinished": "drop", "steps": 1}
    cell = job(training, {"samples_per_group": samples})
    requests, groups, steps = tables(cell)
    times = lengths_of(cell)[:drawn]
    assert steps["end"].tolist() == [np.sort(times)[9]]
    assert steps["accepted"].tolist() == [10]
    assert groups["finished"].sum() >= 10 * samples
    assert steps["aborted"].tolist() == [(requests["status"] == ABORTED).sum()]


def test_aborted_requests_keep_what_they_generated():
    """A request aborted at the end of a step has generated a token for each of the engine's steps until then."""
    training = {"groups_per_step": 10, "oversampling_batch": 20, "unfinished": "drop", "steps": 1}
    cell = job(training)
    requests, _, steps = tables(cell)
    aborted = requests["status"] == ABORTED
    assert aborted.sum() == (lengths_of(cell)[:20] > steps["end"][0]).sum()
    assert (requests["output_tokens"][aborted] == steps["end"][0] // STEP).all()
    tokens = np.sort(requests["output_tokens"][~aborted])
    assert tokens[:10].sum() == steps["tokens"].sum()


def test_lots_are_drawn_as_slime_draws_them():
    """A group that the filter drops is replaced by a whole lot: groups started are multiples of the lot."""
    training = {"groups_per_step": 10, "oversampling_batch": 10, "acceptance_rate": 0.7, "unfinished": "drop"}
    cell = job(training | {"steps": 1})
    _, groups, steps = tables(cell)
    passes = Streams(cell.seed, 0).column("training/acceptance").random(40) < 0.7
    assert len(groups["group"]) == 20
    assert not passes[:10].all()
    assert steps["accepted"].tolist() == [10]
    assert steps["rejected"][0] >= (~passes[:10]).sum()


def test_the_filter_is_drawn_for_each_group():
    """One at a time, as many groups start as it takes for thirty to pass."""
    cell = job({"groups_per_step": 10, "acceptance_rate": 0.8, "steps": 3}, {"groups": 60})
    _, groups, steps = tables(cell)
    passes = Streams(cell.seed, 0).column("training/acceptance").random(60) < 0.8
    used = int(np.searchsorted(np.cumsum(passes), 30)) + 1
    assert len(groups["group"]) == used
    assert steps["rejected"].sum() == (~passes[:used]).sum()


def test_a_group_may_need_only_its_first_samples():
    """Six of eight samples complete a group: it ends with the sixth, the other two are aborted."""
    training = {"groups_per_step": 5, "samples_needed": 6, "steps": 1}
    cell = job(training, {"samples_per_group": 8})
    requests, _, steps = tables(cell)
    workload = cell.workload.generate(Streams(cell.seed, 0), cell.base)
    times = np.array([workload.session(session).turns[0].output_tokens for session in range(40)]).reshape(5, 8)
    assert steps["end"][0] == np.sort(times, axis=1)[:, 5].max() * STEP
    assert steps["samples"][0] == (times <= np.sort(times, axis=1)[:, 5:6]).sum()
    assert (requests["status"] == ABORTED).sum() == steps["aborted"][0] <= 10


# -- partial rollouts ----------------------------------------------------------------------------------------------


def test_partial_rollouts_go_on_in_the_next_step():
    """Aborted requests are sent again first, with what they had generated in the prompt, under the next attempt."""
    training = {"groups_per_step": 10, "oversampling_batch": 16, "unfinished": "resume"}
    cell = job(training, {"groups": 64})
    requests, _, steps = tables(cell)
    workload = cell.workload.generate(Streams(cell.seed, 0), cell.base)
    rows = {}
    for request, attempt, prompt, output, submitted, status in zip(
        *(
            requests[n].tolist()
            for n in ("request", "attempt", "prompt_tokens", "output_tokens", "submitted", "status")
        ),
        strict=True,
    ):
        rows.setdefault(request, []).append((attempt, prompt, output, submitted, status))
    starts = set(steps["start"].tolist())
    resumed = 0
    for request, attempts in rows.items():
        attempts.sort()
        assert [attempt for attempt, *_ in attempts] == list(range(len(attempts)))
        done = 0
        for attempt, prompt, output, submitted, status in attempts:
            assert prompt == 100 + done
            assert submitted in starts
            assert (status == FINISHED) == (attempt == len(attempts) - 1)
            done += output
            resumed += attempt > 0
        assert done == workload.session(request).turns[0].output_tokens
    assert resumed > 10
    assert steps["tokens"].sum() == requests["output_tokens"].sum()
    assert steps["age_max"].max() >= 1


def test_resuming_wastes_nothing_and_dropping_does():
    """Of the same job, partial rollouts train on every token, dropped ones do not."""
    base = {"groups_per_step": 10, "oversampling_batch": 16, "steps": 4}
    workload = {"groups": 200}
    drop, resume = (tables(job(base | {"unfinished": how}, workload)) for how in ("drop", "resume"))
    used = []
    for requests, _, steps in (drop, resume):
        used.append(steps["tokens"].sum() / requests["output_tokens"].sum())
    assert used[0] < 0.8
    assert used[1] > used[0]


def test_deferred_groups_fill_steps_of_their_own():
    """RollPacker: aborted prompts wait until they fill a step, which begins them anew and aborts nothing."""
    training = {"groups_per_step": 8, "oversampling_batch": 12, "unfinished": "defer"}
    requests, _, steps = tables(job(training, {"groups": 48}))
    long = np.flatnonzero((steps["aborted"] == 0) & (steps["accepted"] == 8))
    assert steps["aborted"][:2].tolist() == [4, 4]
    assert long[0] == 2
    again = requests["attempt"] > 0
    assert (requests["prompt_tokens"] == 100).all()
    assert again.sum() >= 8
    assert set(requests["submitted"][again].tolist()) <= set(steps["start"].tolist())
    assert steps["accepted"].sum() == 48


# -- bounded staleness ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_staleness_is_bounded(staleness):
    """No group of a batch is older than allowed, and where more is allowed more is used."""
    training = {"groups_per_step": 8, "max_staleness": staleness, "train_s": 0.3, "update": {"in_flight": "continue"}}
    _, _, steps = tables(job(training, {"groups": 160}))
    assert steps["age_max"].max() == staleness
    assert steps["accepted"].sum() == 160


def test_asynchronous_training_overlaps():
    """With one version of staleness rollouts go on while the trainer trains, and the run is shorter."""
    base = {"groups_per_step": 8, "train_s": 0.5, "update": {"in_flight": "continue"}}
    ends = [
        tables_of["end"][-1]
        for tables_of in (
            list(tables(job(base | {"max_staleness": staleness}, {"groups": 80})))[2] for staleness in (0, 1)
        )
    ]
    assert ends[1] < 0.85 * ends[0]


# -- new weights ---------------------------------------------------------------------------------------------------


def updates(in_flight, **more):
    training = {
        "groups_per_step": 8,
        "max_staleness": 2,
        "train_s": 0.1,
        "update": {"time_s": 0.2, "in_flight": in_flight, **more},
    }
    return list(tables(job(training, {"groups": 80})))


def test_draining_lets_requests_end():
    """No request is under way while weights are put in place, and none is aborted."""
    requests, _, steps = updates("drain")
    assert (requests["status"] == FINISHED).all()
    for updated in steps["updated"][:-1]:
        assert not ((requests["submitted"] < updated) & (requests["ended"] > updated - 200 * MS)).any()


def test_continuing_stops_the_clock():
    """Requests that an update meets take longer by its time, and none is sent twice."""
    requests, _, steps = updates("continue")
    assert not requests["attempt"].any()
    times = requests["ended"] - requests["submitted"] - requests["output_tokens"] * STEP
    updated = steps["updated"][steps["updated"] >= 0]
    met = [
        int(((updated - 200 * MS >= start) & (updated <= end)).sum())
        for start, end in zip(requests["submitted"], requests["ended"], strict=True)
    ]
    assert max(met) >= 1
    # The step under way when an update begins ends; a request then waits up to a step less than the update's time.
    for extra, count in zip(times.tolist(), met, strict=True):
        assert 0 <= extra - count * 200 * MS <= (count + 1) * 2 * STEP or extra >= (count - 1) * 200 * MS


def test_aborting_sends_again():
    """Requests in flight are aborted at the update and sent again when it is over, with what they had."""
    requests, _, steps = updates("abort")
    aborted = requests["status"] == ABORTED
    assert aborted.any()
    updated = set(steps["updated"].tolist())
    again = requests["attempt"] > 0
    assert set(requests["submitted"][again].tolist()) <= updated
    assert (requests["prompt_tokens"][again] >= 100).all()
    assert again.sum() == aborted.sum()


def hits(cache):
    """Share of the second step's prompt tokens that the first step's prompts left in the cache."""
    training = {"groups_per_step": 4, "update": {"cache": cache}}
    workload = {"groups": 8, "prompt": {"group_tokens": 16, "system_tokens": 1024}, "output_tokens": 4, "max_tokens": 4}
    requests, _, _ = tables(job(training, workload))
    second = requests["group"] >= 4
    return requests["cached_tokens"][second].sum() / requests["prompt_tokens"][second].sum()


def test_caches_at_an_update():
    """Kept, a shared system prompt is found after the update; flushed or of another version it is not, at first."""
    kept, flushed, versioned = hits("keep"), hits("flush"), hits("version")
    assert kept == pytest.approx(1024 / 1040)
    assert flushed == versioned <= 0.75 * kept


def test_flushes_are_written_down():
    """One for each update that flushes, when its weights are in place; none where caches are kept or versions told."""
    for cache, expected in (("flush", True), ("keep", False), ("version", False)):
        log = replicate(job({"groups_per_step": 4, "update": {"cache": cache, "time_s": 3}}, {"groups": 12}), 0)
        updated = [at for at in log.numpy("steps")["updated"].tolist() if at >= 0]
        changes = log.numpy("changes")
        assert len(updated) == 3
        assert changes["at"].tolist() == (updated if expected else [])
        assert set(changes["change"].tolist()) <= {FLUSH}


# -- time limits ---------------------------------------------------------------------------------------------------


def test_a_sample_ends_with_its_time():
    """After 0.5 s a sample is cut off wherever it is; what it has counts for its group."""
    training = {"groups_per_step": 10, "steps": 1}
    requests, groups, steps = tables(job(training, client={"sample_time_limit_s": 0.5}))
    cut = requests["status"] == ABORTED
    assert cut.any()
    assert (requests["ended"][cut] >= 500 * MS).all()
    assert (requests["ended"][cut] <= 500 * MS + 2 * STEP).all()
    assert (requests["output_tokens"][~cut] <= 50).all()
    assert steps["samples"].tolist() == [10]
    assert steps["end"][0] == requests["ended"].max()
    assert groups["finished"].sum() == (~cut).sum()


# -- closed forms --------------------------------------------------------------------------------------------------


def test_a_wave_drains_in_its_closed_form():
    """A step costs a + b a sequence that decodes: a wave of lengths L takes a max(L) + b sum(L - 1)."""
    cost = {"kind": "constant", "step_ms": 10.0, "per_sequence_ms": 0.5}
    cell = job({"groups_per_step": 20}, engine={"cost": cost})
    _, _, steps = tables(cell)
    lengths = (lengths_of(cell) // STEP).reshape(2, 20)
    expected = 10 * MS * lengths.max(axis=1) + MS // 2 * (lengths - 1).sum(axis=1)
    assert (steps["end"] - steps["start"]).tolist() == pytest.approx(expected.tolist(), rel=0.01)
