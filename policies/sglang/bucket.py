"""Routing by prompt length, as the prefill pool of sglang-router 0.3.2 has it."""

from dataclasses import dataclass

from policies._bucket import BucketPolicy


@dataclass
class Bucket(BucketPolicy):
    """Every engine owns an interval of prompt lengths; while characters differ much, the engine with fewest serves.

    At first 4096 characters are divided evenly and the last interval is open. Every ``bucket_adjust_interval_secs`` the
    bounds are re-cut so that each interval carries an equal share of the characters seen in a window of that length, if
    that share changed by more than a factor of 2. A request goes to the owner of its length, except while characters
    sent in the window differ by more than ``balance_abs_threshold`` and ``most > balance_rel_threshold * fewest``:
    then to the engine with fewest. Health is not looked at, so a choice that is not available is refused with 503.
    After a join or a leave the first engine owns all lengths until the next re-cut. Cost O(engines).

    Source: sgl-project/sglang ``sgl-model-gateway/src/policies/bucket.rs`` at 092fb0452. The defaults are those of the
    command line (64, 1.5); a policy built without it has 32 and 1.0001. Ties go by a hash map's order there, and are
    random here. Only the prefill pool may use it; here it may stand alone.
    Known pathologies: no prefix affinity; the thresholds count characters, so almost any two long prompts make the pool
    uneven and the policy a least load by characters; an engine that is down refuses its share of the requests.
    Checked against: decision tables from the source.
    """
