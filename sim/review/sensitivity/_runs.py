"""Both arms at other settings, under the random numbers of the centre, each setting run once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import ScenarioError
from sim.log import store
from sim.report.region import coverage
from sim.report.result import Arm, Result
from sim.review._assumptions import regions
from sim.review.sensitivity._centre import Centre, log_ratios
from sim.scenario import Scenario, Sweep, Variant
from sim.stats import Floats, Ratio
from sim.stats.sensitivity import Estimate, change, elsewhere
from sim.stats.strata import compare_blocked
from sim.sweep import sweep

Progress = Callable[[int, int], None]


class Runs:
    """Both arms at other settings, each run once."""

    def __init__(
        self, centre: Centre, pairs: int, *, out: Path, jobs: int | None, fresh: bool, progress: Progress | None
    ) -> None:
        self.centre = centre
        self.pairs = pairs
        self.notes: dict[str, None] = {}
        self.done = 0
        self._how: dict[str, Any] = {"out": out / "sensitivity", "jobs": jobs, "fresh": fresh, "progress": progress}
        self._every = centre.logs()
        self._found: dict[tuple[str, int], tuple[Estimate, Estimate, Floats] | None] = {}
        self._far: dict[tuple[str, int], float] = {}

    def at(
        self, settings: Sequence[Mapping[str, Any]], names: Sequence[str], pairs: int | None = None
    ) -> list[tuple[Estimate, Estimate, Floats] | None]:
        """Ratio, change over the centre, and changes by pair, of each; None where it cannot be run: a note says why."""
        count = self.pairs if pairs is None else pairs
        keys = [self._key(each, count) for each in settings]
        variants: dict[tuple[str, int], Variant] = {}
        for key, each, name in zip(keys, settings, names, strict=True):
            if key in self._found or key in variants:
                continue
            try:
                varied = self.centre.scenario.varied(each).select(pairs=count)
                variants[key] = Variant(name, dict(each), varied)
            except ScenarioError as error:
                self._fail(key, name, str(error))
        self._run(variants)
        return [self._found[key] for key in keys]

    def far(self, settings: Mapping[str, Any]) -> float | None:
        """Share of busy time outside the calibrated region in the arm that has more, by the first pair."""
        return self._far.get(self._key(settings, self.pairs))

    @staticmethod
    def _key(settings: Mapping[str, Any], count: int) -> tuple[str, int]:
        return repr(sorted(settings.items(), key=lambda item: item[0])), count

    def _fail(self, key: tuple[str, int], name: str, error: str) -> None:
        self._found[key] = None
        self.notes[f"{name} cannot be run: {error.partition(': ')[2] or error}"] = None

    def _run(self, variants: Mapping[tuple[str, int], Variant]) -> None:
        if not variants:
            return
        named = {f"{number}": key for number, key in enumerate(variants)}
        made = Sweep(
            self.centre.scenario,
            (),
            tuple(replace(variants[key], name=name) for name, key in named.items()),
        )
        try:
            found = sweep(made, keep_tables=True, **self._how)  # tables say what was outside the calibrated region
        except ScenarioError as error:
            # One that is refused before it runs keeps the others from running: each by itself, then.
            for key, variant in variants.items():
                if len(variants) > 1:
                    self._run({key: variant})
                else:
                    self._fail(key, variant.name, str(error))
            return
        for name, key in named.items():
            if name in found.results:
                self._found[key] = self._estimates(found.results[name])
                self._far[key] = max(_far(variants[key].scenario, arm) for arm in found.results[name].arms.values())
                self.done += 2 * key[1]
                if failures := found.results[name].failures:
                    self.notes[f"{variants[key].name}: {failures} replications failed"] = None
            else:
                self._fail(key, variants[key].name, found.errors[name])

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


def _far(scenario: Scenario, arm: Arm) -> float:
    return 1 - coverage(store.read_engines(arm.folder, pair=0), regions(scenario.arms[arm.name])).inside_share


def _of(found: Ratio) -> Estimate:
    return Estimate(found.ratio, found.lo, found.hi, found.pairs)


def run_or_centre(runs: Runs, settings: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Estimate | None]:
    """Ratios at settings; no setting at all is the centre itself."""
    asked = [(each, name) for each, name in zip(settings, names, strict=True) if each]
    found = iter(runs.at([each for each, _ in asked], [name for _, name in asked]))
    for each in settings:
        if not each:
            yield runs.centre.estimate
            continue
        ran = next(found)
        yield None if ran is None else ran[0]
