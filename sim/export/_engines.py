"""Command lines of the engines that a fleet fixes: ``python3 -m sglang.launch_server`` and ``vllm serve``.

Flags and variables as SGLang 0.5.23 has them (sgl-project/sglang ``python/sglang/srt/arg_groups/fields/schedule.py``,
``srt/environ.py``, ``srt/managers/schedule_policy.py``) and vLLM 0.28 (vllm-project/vllm ``vllm/config/cache.py`` at
002f10e0c, ``vllm/config/scheduler.py``, ``vllm/engine/arg_utils.py``). Both report the cached tokens of each request,
which the results need, and can be flushed: SGLang by ``POST /flush_cache``, vLLM by ``POST /reset_prefix_cache``.
"""

from collections.abc import Mapping
from typing import Any

from sim.export._facts import Facts
from sim.export._program import Program, Settings, flat

_ORDER_OF_QUEUE = {"lpm": "deferred", "dfs-weight": "deferred"}
"""Queue orders that hold siblings back, and what they see; others see prompts once they are computed."""


def engine_files(facts: Facts) -> tuple[dict[str, str], list[str]]:
    """A script for each type of engine, and what of the fleet no script can do."""
    files, errors = {}, []
    for name in facts.types:
        program = engine(facts, name)
        files[f"engine-{name}.sh" if name else "engine.sh"] = program.script()
        errors += program.settings.errors()
    return files, errors


def engine(facts: Facts, name: str) -> Program:
    """One type of engine."""
    kind = facts.types[name]
    place = f"fleet.engines.{name}" if name else "fleet"
    spec = kind["engine"]
    settings = Settings(
        {f"{place}.{'count' if name else 'engines'}": kind["count"]}
        | flat(spec, f"{place}.engine")
        | _others(facts.fleet)
    )
    settings.place(f"{place}.{'count' if name else 'engines'}", "start as many, each at its own address")
    others(settings)
    is_sglang = spec["preset"] == "sglang"
    product, command = ("SGLang", "python3 -m sglang.launch_server") if is_sglang else ("vLLM", "vllm serve")
    title = f"{product}, one engine" + (f" of type {name}" if name else "")
    program = Program(title, command, settings)
    if is_sglang:
        program.raw["--model-path"] = f'"${{MODEL:?path or name of {spec["model"]}}}"'
        sglang(program, spec, facts.kv_tokens[name], f"{place}.engine")
        program.flag(f"{place}.engine.tp", "--tp-size")
        program.constant("--enable-cache-report")
        program.notes.append("Empty the cache before a run: POST /flush_cache")
    else:
        program.command += f' "${{MODEL:?path or name of {spec["model"]}}}"'
        _vllm(program, spec, facts.kv_tokens[name], f"{place}.engine")
    for flag, variable in (("--host", "HOST"), ("--port", "PORT")):
        program.raw[flag] = f'"${{{variable}:?}}"'
    return program


def _others(fleet: Mapping[str, Any]) -> dict[str, Any]:
    below = {name: value for name, value in fleet.items() if name not in ("engines", "engine")}
    return {name: value for key, each in below.items() for name, value in flat(each, f"fleet.{key}").items()}


def others(settings: Settings) -> None:
    """What the scenario says of the fleet beside its engines."""
    for name in settings.names("fleet.noise"):
        settings.place(name, "of the machines: measured, not set")
    for name, what in (("fleet.changes", "at these times"), ("fleet.failures", "at random")):
        for each in [name, *settings.names(name)]:
            if each not in settings.values:
                continue
            is_absent = settings.values[each] in (None, [])
            settings.place(each, "none" if is_absent else f"no flag: the operator does it, {what}")
    settings.place("fleet.noticed_after_s", "of who manages the fleet")


def sglang(program: Program, spec: Mapping[str, Any], kv_tokens: int, place: str, prefix: str = "--") -> None:
    """Flags of an SGLang engine; slime has the same ones with a prefix."""
    settings = program.settings
    _hardware(settings, place)
    program.switch(f"{place}.overlap", "", f"{prefix}disable-overlap-schedule")
    usual = _ORDER_OF_QUEUE.get(spec["queue_order"], "after_prefill")
    if spec["visibility"] == "never":
        settings.place(f"{place}.visibility", f"{prefix}disable-radix-cache")
        program.constant(f"{prefix}disable-radix-cache")
    elif spec["visibility"] == usual:
        settings.place(f"{place}.visibility", f"follows from {prefix}schedule-policy")
    else:
        settings.refuse(f"{place}.visibility", f"with {prefix}schedule-policy {spec['queue_order']} it is {usual}")
    program.flag(f"{place}.block_tokens", f"{prefix}page-size")
    program.flag(f"{place}.max_num_seqs", f"{prefix}max-running-requests")
    program.flag(f"{place}.max_prefill_tokens", f"{prefix}max-prefill-tokens")
    program.flag(f"{place}.chunked_prefill_tokens", f"{prefix}chunked-prefill-size")
    program.switch(f"{place}.enable_mixed_chunk", f"{prefix}enable-mixed-chunk")
    program.flag(f"{place}.queue_order", f"{prefix}schedule-policy")
    program.flag(f"{place}.schedule_conservativeness", f"{prefix}schedule-conservativeness")
    program.variable(f"{place}.new_token_ratio_decay_steps", "SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS")
    program.variable(f"{place}.clip_max_new_tokens", "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION")
    for field, variable in (("check", "CHECK"), ("defer", "DEPRIORITIZE")):
        name = f"{place}.in_batch_{field}_tokens"
        if settings.values[name] is None:
            settings.place(name, "nobody is held back")
        else:
            program.variable(name, f"IN_BATCH_PREFIX_CACHING_{variable}_THRESHOLD")
    if spec["kv_tokens"] is not None:
        program.flag(f"{place}.kv_tokens", f"{prefix}max-total-tokens")
        settings.place(f"{place}.memory_share", f"{prefix}max-total-tokens instead")
    else:
        program.flag(f"{place}.memory_share", f"{prefix}mem-fraction-static")
        settings.place(
            f"{place}.kv_tokens", f"by memory: simulated with {kv_tokens}; the log of the engine says its own"
        )
    _kv_bits(program, f"{place}.kv_bits", f"{prefix}kv-cache-dtype", "fp8_e4m3")
    _of_the_other(settings, place)


def _vllm(program: Program, spec: Mapping[str, Any], kv_tokens: int, place: str) -> None:
    settings = program.settings
    _hardware(settings, place)
    program.flag(f"{place}.tp", "--tensor-parallel-size")
    program.switch(f"{place}.overlap", "--async-scheduling", "--no-async-scheduling")
    caches = spec["visibility"] != "never"
    caching = f"--{'' if caches else 'no-'}enable-prefix-caching"
    program.constant(caching)
    if caches:
        settings.built_in(f"{place}.visibility", "at_schedule")
    else:
        settings.place(f"{place}.visibility", caching)
    if spec["align_chunks"]:
        settings.place(f"{place}.align_chunks", "--mamba-cache-mode align")
        program.constant("--mamba-cache-mode", "align")
        settings.place(f"{place}.block_tokens", "chosen by the engine to hold the state: its log must say this number")
    else:
        settings.place(f"{place}.align_chunks", "of the model: it keeps no state")
        program.flag(f"{place}.block_tokens", "--block-size")
    settings.place(f"{place}.state_tokens_per_seq", "of the model")
    program.flag(f"{place}.max_num_seqs", "--max-num-seqs")
    program.flag(f"{place}.max_num_batched_tokens", "--max-num-batched-tokens")
    program.flag(f"{place}.long_prefill_token_threshold", "--long-prefill-token-threshold")
    full = "scheduler-reserve-full-isl"
    program.switch(f"{place}.reserve_full_prompt", f"--{full}", f"--no-{full}")
    program.flag(f"{place}.watermark_share", "--watermark")
    if spec["kv_tokens"] is not None and spec["align_chunks"]:
        where = "no flag for a model that keeps a state: the log of the engine must say this number"
        settings.place(f"{place}.kv_tokens", where)
        settings.place(f"{place}.memory_share", "--gpu-memory-utilization as the engine has it")
    elif spec["kv_tokens"] is not None:
        blocks, over = divmod(spec["kv_tokens"], spec["block_tokens"])
        where = "--num-gpu-blocks-override" + (f", {over} tokens over whole blocks are left out" if over else "")
        settings.place(f"{place}.kv_tokens", where)
        program.constant("--num-gpu-blocks-override", blocks)
        settings.place(f"{place}.memory_share", "--num-gpu-blocks-override instead")
    else:
        program.flag(f"{place}.memory_share", "--gpu-memory-utilization")
        settings.place(
            f"{place}.kv_tokens", f"by memory: simulated with {kv_tokens}; the log of the engine says its own"
        )
    _kv_bits(program, f"{place}.kv_bits", "--kv-cache-dtype", "fp8")
    program.constant("--scheduling-policy", "fcfs")
    program.constant("--enable-prompt-tokens-details")
    program.environment["VLLM_SERVER_DEV_MODE"] = "1"
    program.notes.append("Empty the cache before a run: POST /reset_prefix_cache, which VLLM_SERVER_DEV_MODE opens")
    _of_the_other(settings, place)


def _hardware(settings: Settings, place: str) -> None:
    settings.place(f"{place}.preset", "this program")
    settings.place(f"{place}.model", "MODEL")
    settings.place(f"{place}.device", "the machine it runs on")
    settings.place(f"{place}.other_gib", "of the program: activations, graphs, communicator")
    for name in [f"{place}.cost", *settings.names(f"{place}.cost")]:
        if name in settings.values:
            settings.place(name, "of the hardware: measured, not set")


def _kv_bits(program: Program, name: str, flag: str, fp8: str) -> None:
    bits = program.settings.values[name]
    if bits == 8:
        program.settings.place(name, flag)
        program.constant(flag, fp8)
    else:
        program.settings.place(name, f"without {flag}: that of the model")


def _of_the_other(settings: Settings, place: str) -> None:
    """Fields that the other preset has."""
    for name in settings.left():
        if name.startswith(f"{place}.") and settings.values[name] is None:
            settings.place(name, "of the other engine")
