"""Part 3: what the first replication holds."""

from sim.report.table import number
from sim.review._gather import Evidence
from sim.review._model import Part, Table


def workload(ev: Evidence) -> Part:
    """3: what the first replication holds."""
    tables = []
    for index, (arms, (own, keys)) in enumerate(ev.workloads.items(), 1):
        totals = [(name, f"{value:,}") for name, value in own.totals.items()]
        totals += [(f"reuse ceiling, blocks of {block:,}", f"{share:.1%}") for block, share in own.reuse.items()]
        totals += [("work in the largest 1 % of sessions", f"{own.top_share:.1%}")]
        totals += [("largest request with its limit, tokens", f"{own.largest.tokens:,}")]
        rows = [
            (name, f"{each.count:,}", *(number(v) for v in (each.mean, each.p50, each.p90, each.p99, each.max)))
            for name, each in own.spreads.items()
        ]
        spread = [(k.of, f"{k.keys:,}", f"{k.engines:,}", number(k.per_engine), f"{k.max_over_mean:.2f}") for k in keys]
        tables += [
            Table(f"3.{3 * index - 2}", f"Totals, {arms}", ("quantity", "value"), totals),
            Table(f"3.{3 * index - 1}", f"Sizes, {arms}", ("quantity", "n", "mean", "p50", "p90", "p99", "max"), rows),
        ]
        if spread:
            head = ("one key a", "keys", "engines", "keys per engine", "E[max/mean]")
            tables.append(Table(f"3.{3 * index}", f"Routing keys under a uniform hash, {arms}", head, spread))
    return Part(3, "Workload", ["Of replication 0; later ones are drawn from the same laws."], tables)
