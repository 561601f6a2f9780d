"""Which published results and known laws the rows of validation are about, and what of them no row covers, and why.

An id is for good: a result that is withdrawn keeps its number. ``R``: a measured comparison of routers; ``W``: a report
beside it; ``B``: a finding of another simulation, under its name there; ``T``: a law. Reports that are scenarios of
their own, the ``P`` numbers, stand in docs/cases.md.
"""

from dataclasses import dataclass
from typing import Final

GITHUB: Final = "https://github.com/"


@dataclass(frozen=True, slots=True)
class Source:
    """One published result, or one law."""

    says: str
    where: str
    """Who published it, as people call the place."""
    link: str = ""
    uncovered: str = ""
    """What of it no row has, and why."""


def _thread(says: str, where: str, path: str, uncovered: str = "") -> Source:
    return Source(says, where, GITHUB + path, uncovered)


_BLIS: Final = "inference-sim/inference-sim/tree/hypothesis-archive/hypotheses"

SOURCES: Final[dict[str, Source]] = {
    "R1": _thread("one key a group against one a sample", "THUDM/slime pull request 2206", "THUDM/slime/pull/2206"),
    "R2": _thread(
        "replay of agent sessions on 12 and 28 engines",
        "NVIDIA-NeMo/Gym pull request 2570, NVIDIA-NeMo/RL pull request 3663",
        "NVIDIA-NeMo/Gym/pull/2570",
        "its smaller model on four engines: lengths and cost of a step are not published",
    ),
    "R4": Source(
        "cache-aware against round robin, SGLang v0.4",
        "lmsys.org, SGLang v0.4",
        "https://lmsys.org/blog/2024-12-04-sglang-v0-4/",
    ),
    "R7": _thread(
        "placement of groups and of single requests on eight engines",
        "redai-studio/Relax issues 147, 268",
        "redai-studio/Relax/issues/147",
        "tokens a second by themselves: the model, a vision model of 4B, has no cost profile here",
    ),
    "R9": _thread(
        "hash against sticky least loaded at three pressures",
        "NovaSky-AI/SkyRL pull request 1791",
        "NovaSky-AI/SkyRL/pull/1791",
        "means of groups: p50, p90 and longest stand for them",
    ),
    "R11": _thread(
        "ties that all go to the first engine",
        "verl-project/verl issue 7613, vllm-project/router 179",
        "verl-project/verl/issues/7613",
        "the same fault elsewhere (pytorch/torchtitan 4109, BerriAI/litellm 40401, sgl-project/sglang 27547 and 15473, "
        "AMD-AGI/Infera 103): P11, P25",
    ),
    "R12": _thread(
        "ring against rendezvous hashing",
        "vllm-project/router issue 128",
        "vllm-project/router/issues/128",
        "32 and 128 sessions a rank: between those that are here, on the same closed form",
    ),
    "R15": _thread(
        "kv-aware against least loaded",
        "NVIDIA/aicr issue 1374",
        "NVIDIA/aicr/issues/1374",
        "GB200 and RTX PRO 6000: no cost profile of this model on them",
    ),
    "R20": _thread(
        "four policies up a ladder of rates",
        "llm-d/llm-d-kv-cache, benchmarking/73-capacity",
        "llm-d/llm-d-kv-cache/blob/main/benchmarking/73-capacity/README.md",
        "eleven of sixteen rates, and queues and KV use over all rates, which need them: minutes a run",
    ),
    "R22": _thread(
        "sticky until saturated, ten endpoints",
        "llm-d blog of 2026-08-17",
        "llm-d/llm-d.github.io/blob/main/blog/2026-08-17_sticky-until-saturated-token-aware-routing.mdx",
        "the knees of b2b-saas, which are R20's shape on eight endpoints, and its two states: the curves are images; "
        "peaks of prefill on devices without a cost profile",
    ),
    "W1": _thread("turns of one rollout on many engines", "THUDM/slime issue 1469", "THUDM/slime/issues/1469"),
    "W2": _thread(
        "thresholds of cache_aware with 1,000 sessions",
        "NVIDIA-NeMo/Gym pull request 3345",
        "NVIDIA-NeMo/Gym/pull/3345",
    ),
    "W3": _thread(
        "ranks by prefix, in turn, by tokens",
        "sgl-project/sglang pull request 31170",
        "sgl-project/sglang/pull/31170",
    ),
    "W4": _thread(
        "one full engine of four",
        "PrimeIntellect-ai/prime-rl pull request 3255",
        "PrimeIntellect-ai/prime-rl/pull/3255",
    ),
    "W5": _thread("a prefix common to all", "NVIDIA-NeMo/Gym pull request 3193", "NVIDIA-NeMo/Gym/pull/3193"),
    "W6": _thread(
        "least in flight against static shards", "Tencent-Hunyuan/UniRL issue 40", "Tencent-Hunyuan/UniRL/issues/40"
    ),
    "B-h21": _thread("one scorer alone", "inference-sim, h21", _BLIS),
    "B-prefix-affinity": _thread("chats whose rounds meet by accident; a prompt common to all", "inference-sim", _BLIS),
    "B-h3": _thread("routing by KV use alone", "inference-sim, h3 and h29", _BLIS),
    "B-h8": _thread("the cliff of preemption", "inference-sim, h8", _BLIS),
    "B-h23": _thread("policies alike at low load", "inference-sim, h23", _BLIS),
    "B-h-scaling": _thread("the lead at 4, 8 and 16 engines", "inference-sim, h-scaling", _BLIS),
    "B-h-cross-model": _thread("a lead that another model takes away", "inference-sim, h-cross-model", _BLIS),
    "B-h31, B-h-mmk": _thread(
        "a saturated replay; waits of M/M/k", "inference-sim", _BLIS, "both are errors of that simulator: see T1"
    ),
    "T1": Source(
        "waits of queues, one server and several", "queueing theory", uncovered="load 0.95: docs/theory.md has it"
    ),
    "T2": Source(
        "the better of two, and balls into urns",
        "queueing theory",
        uncovered="loads other than 0.7: docs/theory.md; the best of three: no router here has it",
    ),
    "T3": Source("time in which a batch drains", "arithmetic"),
    "T4": Source(
        "hashed keys as balls into urns",
        "multinomial counts",
        uncovered="95th percentiles of fewer than 64 keys: steps of a key are as wide as a band",
    ),
    "T5": Source(
        "shares of a ring, bounded loads",
        "Beta and Dirichlet law; Mirrokni, Thorup and Zadimoghaddam",
        uncovered="keys that move when engines come and go: P46, and tests of policies",
    ),
    "T6": Source("what of prompts is found again", "arithmetic; Che's approximation"),
    "T7": Source(
        "tails of groups, order statistics", "arithmetic", uncovered="32 samples at a CV of 1: too few groups"
    ),
    "T8": Source(
        "invariants: conservation, equal arms, one engine",
        "laws of this program",
        uncovered="bounds that hold at every event: tests/laws",
    ),
}
