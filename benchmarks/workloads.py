"""The workloads as cells: files of this folder, and the shipped replay, at the size that is asked for."""

from pathlib import Path

from sim.replication import replicate
from sim.scenario import Cell, load_scenario

HERE = Path(__file__).parent
LOAD = 0.7
"""Share of the saturated rate at which the requests of A arrive."""
FULL = {"A": 10_000, "B": 600, "C": 256, "E": 50_000, "F": 200_000}
"""Groups of each workload in full; one of A and F is a request, one of B and E a session of 20 turns."""


def cell(name: str, groups: int, *overrides: str, preset: str = "vllm") -> Cell:
    """Workload A, B, C, E or F with this many groups."""
    path = HERE / f"{name.lower()}.yaml"
    return load_scenario(path, [f"workload.groups={groups}", *_of(preset), *overrides]).arms["only"]


def _of(preset: str) -> list[str]:
    return [f"fleet.engine.preset={preset}"]


def replay(*overrides: str, preset: str = "vllm") -> Cell:
    """D: the recorded sessions of the shipped scenario under consistent hashing."""
    own = [] if preset == "vllm" else ["fleet.engine.max_num_batched_tokens=null"]
    return load_scenario("nemo_gym_12_engines", [*_of(preset), *own, *overrides]).arms["consistent_hash"]


def saturated_rate(groups: int, preset: str = "vllm") -> float:
    """Requests a second, simulated, that the fleet of A completes when all are there at once."""
    log = replicate(cell("A", groups, "workload.arrivals={kind: at_once}", preset=preset), 0).numpy("requests")
    return groups / (float(log["ended"].max()) * 1e-9)


def requests(groups: int, rate: float, engines: int = 4, policy: str = "round_robin", preset: str = "vllm") -> Cell:
    """A, on a fleet of any size: requests arrive at ``LOAD`` of what its engines complete; ``rate`` is that of four."""
    arrivals = LOAD * rate * engines / 4
    return cell(
        "A",
        groups,
        f"fleet.engines={engines}",
        f"workload.arrivals.groups_per_s={arrivals!r}",
        f"router.policy={{kind: {policy}}}",
        preset=preset,
    )
