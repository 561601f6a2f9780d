"""Routing by prompt length, as the prefill pool of smg 1.13.0 has it."""

from dataclasses import dataclass

from policies._bucket import BucketPolicy
from policies._protocol import RequestView


@dataclass
class Bucket(BucketPolicy):
    """The rule of ``sglang.bucket``, with the same defaults; prompts of token ids are measured in tokens.

    Every engine owns an interval of prompt lengths, at first equal parts of 4096. A request goes to the owner of its
    length (characters of a text, tokens where ids were sent), except while what was sent in the window differs by more
    than ``balance_abs_threshold`` and ``most > balance_rel_threshold * fewest``: then to the engine with fewest. The
    bounds are re-cut every ``bucket_adjust_interval_secs``. Cost O(engines).

    Source: smg-project/smg ``model_gateway/src/policies/bucket.rs`` at 23b2e5b77. A choice that is not available is
    refused here; there it is sent, and fails.
    Known pathologies: as ``sglang.bucket``: no prefix affinity, no look at health; texts and ids share one scale, so
    mixed traffic is cut wrongly.
    Checked against: decision tables from the source.
    """

    def _length(self, request: RequestView) -> int:
        """Characters of a text, tokens of ids."""
        return request.prompt_tokens if request.encoding == "input_ids" else super()._length(request)
