"""Chat routing that probes a prefix tree with the session's id in place of the prompt."""

from dataclasses import dataclass
from os.path import commonprefix

from policies._load import first_least
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class IdsAsPrefix(Policy):
    """The engine of the known id that shares most of this one, if that is more than a share of it; else least loaded.

    The client numbers its sessions: the n-th that a router sees is ``session-n``.

    Source: vllm-project/router issue 219 (``cache_aware`` for chat passes ``session_params.session_id`` as the text to
    match). Left out: the tree's eviction, and that it drops locality while the pool is uneven.
    """

    threshold: float = 0.5
    """Share of the id, 0..1, above which a known one is taken for the same session."""

    key_headers = ("x-session-id", "x-smg-routing-key")

    def __post_init__(self) -> None:
        self._names: dict[str, str] = {}
        self._homes: dict[str, EngineView] = {}

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by the longest common prefix of ids, the first known one on a tie."""
        if not fleet.available:
            return None, "no_engine", 0
        key = next((request.headers[name] for name in self.key_headers if name in request.headers), "")
        if not key:
            return first_least(fleet.available), "no_key", 0
        name = self._names.setdefault(key, f"session-{len(self._names) + 1}")
        near = max(self._homes, key=lambda known: len(commonprefix((known, name))), default="")
        matched = len(commonprefix((near, name)))
        if matched > self.threshold * len(name) and self._homes[near].is_available:
            engine, branch = self._homes[near], "same" if near == name else "taken_for_another"
        else:
            engine, branch = first_least(fleet.available), "miss"
        self._homes.setdefault(name, engine)
        return engine, branch, matched
