"""SGLang's queue orders, request by request, on trees of real tokens.

Source: sgl-project/sglang ``managers/schedule_policy.py`` (``SchedulePolicy``).
"""

from tests.reference.radix import Radix

MOST_MATCHED = 128
IN_BATCH = 32


class QueueOrder:
    """Sorts a waiting queue before a decision, and names who is held back."""

    def __init__(self, spec, radix, shuffle):
        self.name, self.radix, self.shuffle = spec.queue_order, radix, shuffle
        self.holds = spec.visibility == "deferred"
        self.check = IN_BATCH if spec.in_batch_check_tokens is None else spec.in_batch_check_tokens
        self.defer = IN_BATCH if spec.in_batch_defer_tokens is None else spec.in_batch_defer_tokens

    def arrange(self, waiting, running):
        """The queue in order, and the calls of it that take no part in the decision."""
        if self.name == "lpm" and len(waiting) > MOST_MATCHED:
            return waiting, []
        if not self.holds and self.name not in ("lpm", "dfs-weight"):
            return self._without_cache(waiting, running), []
        nodes, hits, siblings = {}, {}, []
        seen = Radix(1 << 60, 1)
        for call in waiting:
            nodes[call], hits[call] = self.radix.match(call.tokens)
            if hits[call] <= self.check:
                if seen.match(call.tokens)[1] >= self.defer:
                    siblings.append(call)
                else:
                    seen.insert(call.tokens)
        held = siblings if self.holds else []
        if self.name == "lpm":

            def place(call):
                return float("inf") if call in siblings else -min(hits[call], len(call.tokens) - 1)

            return sorted(waiting, key=place), held
        if self.name == "dfs-weight":
            return self._down(self.radix.root, waiting, nodes), held
        return self._without_cache(waiting, running), held

    def _without_cache(self, waiting, running):
        if self.name == "lof":
            return sorted(waiting, key=lambda call: -call.limit)
        if self.name == "random":
            waiting = list(waiting)
            self.shuffle(waiting)
            return waiting
        if self.name == "routing-key":
            return self._by_key(waiting, [call.key for call in running if call.key])
        return waiting

    @staticmethod
    def _by_key(waiting, keys):
        if not keys:
            return waiting
        known = [call for call in waiting if call.key in keys]
        others = [call for call in waiting if call.key not in keys]
        known.sort(key=lambda call: (-keys.count(call.key), call.key))
        return known + sorted(others, key=lambda call: call.key)

    def _down(self, node, waiting, nodes):
        """Those that end below a node, heaviest child first, then those that end at it."""

        def weight(child):
            return sum(child in [nodes[call], *nodes[call].path()] for call in waiting)

        order = []
        for child in sorted(node.children, key=lambda child: -weight(child)):
            if weight(child):
                order += self._down(child, waiting, nodes)
        return order + [call for call in waiting if nodes[call] is node]
