"""Routing by prompt length, as the prefill pool of smg 1.13.0 has it."""

from dataclasses import dataclass

from policies._bucket import BucketPolicy


@dataclass
class Bucket(BucketPolicy):
    """The rule of ``sglang.bucket``, with the same defaults: an interval of prompt lengths for each engine.

    A request goes to the owner of its length, except while characters sent in the window differ by more than
    ``balance_abs_threshold`` and ``most > balance_rel_threshold * fewest``: then to the engine with fewest characters.
    The bounds are re-cut every ``bucket_adjust_interval_secs``. Cost O(engines).

    Source: smg-project/smg ``model_gateway/src/policies/bucket.rs`` at f8daa8835, by its description.
    Known pathologies: as ``sglang.bucket``: no prefix affinity, thresholds in characters, no look at health.
    Checked against: decision tables from the source of ``sglang.bucket``.
    """
