"""Part 3: what the first replication holds."""

from typing import Any, Final

from sim.report.numbers import number
from sim.review._gather import Evidence
from sim.review._model import Part, Row, Table
from sim.review.parts._words import arms
from sim.workload._describe import Spread

NEEDS: Final = {"p50": 2, "p90": 10, "p99": 100}
"""Values from which on a percentile is more than the largest of a few."""
SAYS: Final = {
    "samples_per_group": "siblings a group",
    "turns": "turns a session",
    "tool_delay_s": "tool delay, s",
    "observation_tokens": "observation, tokens",
    "arrivals": "arrivals of groups",
}
"""Fields of a workload that are shown even where they are constant or none."""


def workload(ev: Evidence) -> Part:
    """3: what the first replication holds."""
    tables = []
    named = zip(ev.workloads.items(), arms(ev), strict=False)  # one entry where both arms have the same workload
    for index, ((of, (own, keys)), arm) in enumerate(named, 1):
        totals = [(name.replace("_", " "), f"{value:,}") for name, value in own.totals.items()]
        totals += _laws(ev.cell(arm).resolved["workload"])
        totals += [(f"reuse ceiling, blocks of {block:,}", f"{share:.1%}") for block, share in own.reuse.items()]
        totals += [("work in the largest 1 % of sessions", f"{own.top_share:.1%}")]
        totals += [("largest request with its limit, tokens", f"{own.largest.tokens:,}")]
        rows = [_sizes(name, each) for name, each in own.spreads.items()]
        spread = [(k.of, f"{k.keys:,}", f"{k.engines:,}", number(k.per_engine), f"{k.max_over_mean:.2f}") for k in keys]
        tables += [
            Table(f"3.{3 * index - 2}", f"Totals, {of}", ("quantity", "value"), totals),
            Table(f"3.{3 * index - 1}", f"Sizes, {of}", HEAD, rows, NOTE),
        ]
        if spread:
            head = ("one key a", "keys", "engines", "keys per engine", "E[max/mean]")
            tables.append(Table(f"3.{3 * index}", f"Routing keys under a uniform hash, {of}", head, spread))
    return Part(3, "Workload", ["Of replication 0; later ones are drawn from the same laws."], tables)


HEAD: Final = ("quantity", "n", "mean", "p50", "p90", "p99", "max")
NOTE: Final = "–: so few values have no such percentile (p90 from 10 on, p99 from 100 on)."


def _sizes(name: str, own: Spread) -> Row:
    shown = [number(getattr(own, p)) if own.count >= needs else "–" for p, needs in NEEDS.items()]
    return (name, f"{own.count:,}", number(own.mean), *shown, number(own.max))


def _laws(fields: dict[str, Any]) -> list[tuple[str, str]]:
    """What the scenario states of groups, turns and time; the rest comes from a record, or is not of this kind."""
    absent = "as recorded" if "file" in fields else "none"
    return [(says, _law(fields[name]) if name in fields else absent) for name, says in SAYS.items()]


def _law(value: Any) -> str:
    """A law in words: none, a constant, or its kind and parameters."""
    if isinstance(value, dict):
        kind = str(value.get("kind", "")).replace("_", " ")
        rest = [f"{key.replace('_', ' ')} {each}" for key, each in value.items() if key != "kind" and each is not None]
        return ", ".join(filter(None, (kind, *rest)))
    if value is None or value == 0:
        return "none"
    return f"{value:g}, constant" if isinstance(value, int | float) else str(value)
