"""Both arms at other settings, under the random numbers of the centre, each setting run once."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import ScenarioError
from sim.log import store
from sim.report.region import coverage
from sim.report.result import Arm, Result
from sim.review._assumptions import regions
from sim.review.sensitivity._budget import LEAST_REQUESTS, Budget
from sim.review.sensitivity._centre import Centre, log_ratios
from sim.rng import Streams
from sim.scenario import Scenario, Sweep, Variant
from sim.stats import Floats, Ratio
from sim.stats.sensitivity import Estimate, change, elsewhere
from sim.stats.strata import compare_blocked
from sim.sweep import sweep

Progress = Callable[[int, int], None]


class Runs:
    """Both arms at other settings, each run once."""

    def __init__(
        self,
        centre: Centre,
        *,
        out: Path,
        jobs: int | None,
        fresh: bool,
        progress: Progress | None,
        budget: Budget | None = None,
    ) -> None:
        """Without a budget: whatever it takes. ``progress`` hears of replications, or of requests of the budget."""
        self.centre = centre
        self.budget = budget or Budget(None)
        self.notes: dict[str, None] = {}
        self._how: dict[str, Any] = {"out": out / "sensitivity", "jobs": jobs}
        self._fresh = fresh
        self._progress = progress
        self._every = centre.logs()
        self._found: dict[tuple[str, int], tuple[Estimate, Estimate, Floats] | None] = {}
        self._pairs: dict[str, int] = {}
        """Of each setting, those that were run."""
        self._bought: dict[str, int] = {}
        """Of each setting, those that are paid for."""
        self._far: dict[str, float] = {}
        self._varied: dict[str, Scenario | ScenarioError] = {}
        self._sizes: dict[str, int] = {}

    @property
    def done(self) -> int:
        """Replications of both arms."""
        return 2 * sum(self._pairs.values())

    def buy(self, settings: Sequence[Mapping[str, Any]], pairs: int) -> bool:
        """Pay for so many pairs of all of these, or for none of them; those that are paid for cost nothing."""
        asked = {_key(each): each for each in settings if each}
        if not self.budget.buy(sum(self._price(key, each, pairs) for key, each in asked.items())):
            return False
        for key in asked:
            self._bought[key] = max(self._bought.get(key, 0), pairs)
        return True

    def price(self, settings: Iterable[Mapping[str, Any]], pairs: int) -> int:
        """Requests of so many pairs of all of these, those left out that are paid for."""
        return sum(self._price(_key(each), each, pairs) for each in settings if each)

    def _price(self, key: str, settings: Mapping[str, Any], pairs: int) -> int:
        left = max(pairs - self._bought.get(key, 0), 0)
        return 2 * left * max(self._requests(key, settings), LEAST_REQUESTS)

    def _requests(self, key: str, settings: Mapping[str, Any]) -> int:
        """Of a replication there: those of the centre by what the workload there has more or less of them."""
        if not any("workload" in field.split(".") for field in settings):
            return self.centre.requests
        if key not in self._sizes:
            there = self._there(key, settings)
            here = _turns(self.centre.scenario)
            more = 0.0 if isinstance(there, ScenarioError) else _turns(there) / max(here, 1)
            self._sizes[key] = math.ceil(self.centre.requests * more)
        return self._sizes[key]

    def _there(self, key: str, settings: Mapping[str, Any]) -> Scenario | ScenarioError:
        """The two arms at a setting, or why it cannot be."""
        if key not in self._varied:
            try:
                self._varied[key] = self.centre.scenario.varied(settings)
            except ScenarioError as error:
                self._varied[key] = error
        return self._varied[key]

    def at(
        self, settings: Sequence[Mapping[str, Any]], names: Sequence[str], pairs: int
    ) -> list[tuple[Estimate, Estimate, Floats] | None]:
        """Ratio, change over the centre, and changes by pair, of each; None where it cannot be run: a note says why."""
        keys = [(_key(each), pairs) for each in settings]
        variants: dict[tuple[str, int], Variant] = {}
        for key, each, name in zip(keys, settings, names, strict=True):
            if key in self._found or key in variants:
                continue
            there = self._there(key[0], each)
            if isinstance(there, ScenarioError):
                self._fail(key, name, str(there))
            else:
                variants[key] = Variant(name, dict(each), there.select(pairs=pairs))
        # A setting that has some pairs already gets more of them; whatever is asked, those are not run again.
        known = {key: each for key, each in variants.items() if key[0] in self._pairs}
        self._run({key: each for key, each in variants.items() if key not in known}, fresh=self._fresh)
        self._run(known, fresh=False)
        return [self._found[key] for key in keys]

    def far(self, settings: Mapping[str, Any]) -> float | None:
        """Share of busy time outside the calibrated region in the arm that has more, by the first pair."""
        return self._far.get(_key(settings))

    def _fail(self, key: tuple[str, int], name: str, error: str) -> None:
        self._found[key] = None
        self.notes[f"{name} cannot be run: {error.partition(': ')[2] or error}"] = None

    def _run(self, variants: Mapping[tuple[str, int], Variant], *, fresh: bool) -> None:
        if not variants:
            return
        named = {f"{number}": key for number, key in enumerate(variants)}
        made = Sweep(
            self.centre.scenario,
            (),
            tuple(replace(variants[key], name=name) for name, key in named.items()),
        )
        try:
            # Tables say what was outside the calibrated region.
            found = sweep(made, keep_tables=True, fresh=fresh, progress=self._told(variants), **self._how)
        except ScenarioError as error:
            # One that is refused before it runs keeps the others from running: each by itself, then.
            for key, variant in variants.items():
                if len(variants) > 1:
                    self._run({key: variant}, fresh=fresh)
                else:
                    self._fail(key, variant.name, str(error))
            return
        for name, key in named.items():
            if name in found.results:
                self._found[key] = self._estimates(found.results[name])
                arms = found.results[name].arms.values()
                self._far[key[0]] = max(_far(variants[key].scenario, arm) for arm in arms)
                self._pairs[key[0]] = max(self._pairs.get(key[0], 0), key[1])
                if failures := found.results[name].failures:
                    self.notes[f"{variants[key].name}: {failures} replications failed"] = None
            else:
                self._fail(key, variants[key].name, found.errors[name])

    def _told(self, variants: Mapping[tuple[str, int], Variant]) -> Progress | None:
        """With a budget, how much of it is spent, as far as replications tell that are done; all of these are paid."""
        limit, progress = self.budget.limit, self._progress
        if limit is None or progress is None:
            return progress
        here = 2 * sum(
            (pairs - self._pairs.get(key, 0)) * max(self._requests(key, each.settings), LEAST_REQUESTS)
            for (key, pairs), each in variants.items()
        )
        before = self.budget.spent - here
        return lambda done, total: progress(before + round(here * done / max(total, 1)), limit)

    def _estimates(self, result: Result) -> tuple[Estimate, Estimate, Floats]:
        base, arm = result.arms[self.centre.scenario.baseline], result.arms[self.centre.candidate]
        there = log_ratios(base, arm, self.centre.metric)
        here = self._every[: there.size]
        blocked = next((each for each in (arm, base) if each.is_blocked and each.placed is not None), None)
        if blocked is not None and blocked.placed is not None:
            paired = result.comparison(self.centre.candidate, self.centre.metric).paired
            strata = blocked.placed.strata(base.values["pair"][: there.size])
            moved = compare_blocked(np.exp(here), np.exp(there), "none", *strata)
            return _of(paired), _of(moved), there - here
        return elsewhere(self._every, here, there), change(here, there), there - here


def _key(settings: Mapping[str, Any]) -> str:
    return repr(sorted(settings.items(), key=lambda item: item[0]))


def _turns(scenario: Scenario) -> int:
    """Requests of the workload of a replication, in the arm that has more."""
    cells = scenario.arms.values()
    made = (each.workload.generate(Streams(each.seed), each.base) for each in cells)
    return max(int(each.summary()["requests"]) for each in made)


def _far(scenario: Scenario, arm: Arm) -> float:
    return 1 - coverage(store.read_engines(arm.folder, pair=0), regions(scenario.arms[arm.name])).inside_share


def _of(found: Ratio) -> Estimate:
    return Estimate(found.ratio, found.lo, found.hi, found.pairs)


def run_or_centre(
    runs: Runs, settings: Sequence[Mapping[str, Any]], names: Sequence[str], pairs: int
) -> Iterator[Estimate | None]:
    """Ratios at settings; no setting at all is the centre itself."""
    asked = [(each, name) for each, name in zip(settings, names, strict=True) if each]
    found = iter(runs.at([each for each, _ in asked], [name for _, name in asked], pairs))
    for each in settings:
        if not each:
            yield runs.centre.estimate
            continue
        ran = next(found)
        yield None if ran is None else ran[0]
