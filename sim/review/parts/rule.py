"""Part 12: the rule to write down before the first real run."""

from sim.metrics import METRICS
from sim.review._gather import Evidence
from sim.review._model import Part


def rule(ev: Evidence) -> Part:
    """12: the rule to write down before the first real run."""
    lines, metric = ev.lines, ev.primary.metric
    lower = METRICS[metric].better == "lower"
    direction = "old/new" if lower else "new/old"
    text = f"""primary: {metric} ratio, {direction}, geometric mean over pairs (more than 1 is better)
test: paired t on the log ratio, two-sided 95 %, and the bootstrap over pairs as a check (10,000)
ADOPT as option     if lower bound > {1 - lines.harm:.2f} and mean > {1 + lines.interest:.2f}
RECOMMEND default   if lower bound > 1.00
REJECT              if upper bound < {1 + lines.harm:.2f}
else INCONCLUSIVE   -> at most one extension of the same size, alpha split 0.04 + 0.01
guardrails (stop)   failures > 2 %, preemption > 5 %, any arm's configuration differs, cold-cache check hit > 1 %
multiplicity        Holm over cells; other metrics are exploratory
exclusions          only by gates computed before unblinding, listed with reasons
publish             all arms, all pairs, nulls included"""
    return Part(12, "Decision rule", ["Not sealed: seal it, with the prediction, before run 1."], fixed=text)
