"""Cost profiles: the fitted coefficients of form D for one device, model and tensor-parallel size.

A profile is a YAML file of the shape that the shipped ones in ``profiles/`` have; a user may write their own, or write
the ``coefficients`` part inline in a scenario. Times are milliseconds of one step of the whole tensor-parallel group:

    t0_ms              every step
    token_ms           ms a token by total tokens of the step: {0: a, 4: b, ...} is a from 0 to 4, b beyond
    prefill_pair_ms    query-key pair of a chunk      prefill_chunk_ms   chunk
    decode_seq_ms      decoding sequence              decode_ctx_ms      context token that a decode reads

``status`` says where they come from: ``measured`` on the device, or ``estimated``; reports show which. A profile may
give ``slowdown``, ``host0_ms`` and ``host1_ms`` where the device's defaults do not fit it (``sim/cost/_devices.py``).
``region`` is what was measured, least and most of each quantity; ``resamples`` are fits to resampled measurements, rows
of t0, the slopes by knot, then pair, seq, ctx and chunk (``_uncertain.py``). ``windtunnel calibrate`` writes both.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from sim import registry
from sim.errors import ScenarioError

FOLDER: Final = Path(__file__).parent / "profiles"
STATUSES: Final = ("measured", "estimated")
TIMES: Final = ("t0_ms", "prefill_pair_ms", "decode_seq_ms", "decode_ctx_ms", "prefill_chunk_ms")
_FIGURES: Final = ("weight_gib_per_gpu", "kv_bytes_per_token_per_gpu", "device_gib")
_OPTIONAL: Final = ("slowdown", "host0_ms", "host1_ms", "error_percent", "region", "resamples", "licence", *_FIGURES)
_REQUIRED: Final = ("device", "model", "tp", "status", "source", "coefficients")


@dataclass(frozen=True, slots=True)
class Profile:
    """Coefficients in milliseconds with what is known of their origin; None where a profile does not say."""

    name: str
    times: Mapping[str, float]
    token_ms: tuple[tuple[int, float], ...]
    device: str = ""
    model: str = ""
    tp: int = 0
    status: str = "estimated"
    source: str = "written inline in the scenario"
    licence: str | None = None
    error_percent: Mapping[str, tuple[float, float]] | None = None
    """Mean and 90th percentile of the error of the fit, by phase."""
    region: Mapping[str, tuple[float, float]] | None = None
    """Least and most of what was measured, by quantity: tokens and chunks of a step, decodes, their mean context."""
    resamples: tuple[tuple[float, ...], ...] = ()
    """Coefficients of fits to resampled measurements, one row each."""
    weight_gib_per_gpu: float | None = None
    kv_bytes_per_token_per_gpu: float | None = None
    device_gib: float | None = None
    slowdown: float | None = None
    host0_ms: float | None = None
    host1_ms: float | None = None


def names() -> list[str]:
    """The shipped profiles."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def locate(profile: str | None, *, device: str, model: str, tp: int, base: Path) -> Path:
    """File of a profile: a path relative to ``base``, a shipped name, or by default the one of device, model and tp."""
    if profile is not None and profile.endswith((".yaml", ".yml")):
        path = base / profile
        if not path.is_file():
            raise ScenarioError(f"cost profile {path} does not exist")
        return path
    name = profile if profile is not None else f"{device}_{model}_tp{tp}"
    path = FOLDER / f"{name}.yaml"
    if "/" in name or not path.is_file():
        if profile is None:
            raise _missing(device, model, tp)
        raise ScenarioError(f"no shipped cost profile {name!r} (one of your own ends in .yaml); {_suggest(name)}")
    return path


def _suggest(name: str) -> str:
    return registry.suggest(name, names())


class ProfileError(ScenarioError):
    """No shipped profile for an engine; ``key`` is the field of the engine that is at fault."""

    def __init__(self, message: str, key: str = "cost") -> None:
        super().__init__(message)
        self.key = key


def _missing(device: str, model: str, tp: int) -> ProfileError:
    known = [tuple(name.rsplit("_", 2)) for name in names() if "_tp" in name]
    wanted = (device, model, f"tp{tp}")
    for place, (key, value) in enumerate((("device", device), ("model", model), ("tp", tp))):
        fitting = [each for each in known if each[:place] == wanted[:place]]
        if all(each[place] != wanted[place] for each in fitting):
            options = sorted({each[place].removeprefix("tp" if key == "tp" else "") for each in fitting})
            beside = {"device": "", "model": f" on {device}", "tp": f" for {model} on {device}"}[key]
            return ProfileError(
                f"no shipped cost profile{beside} has {key} {value!r} (cost can name one of your own); "
                f"{registry.suggest(value, options)}",
                key,
            )
    raise AssertionError(wanted)


def find(*, device: str, model: str, tp: int) -> Profile | None:
    """The shipped profile of device, model and tp, if there is one."""
    path = FOLDER / f"{device}_{model}_tp{tp}.yaml"
    return load(path) if path.stem in names() else None


def read_yaml(path: Path) -> Any:
    """What a file holds; its mappings know their lines."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="rt").load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from None
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None


@lru_cache(maxsize=64)
def _load(path: Path, _modified_ns: int) -> Profile:
    return _profile(read_yaml(path), path)


def load(path: Path) -> Profile:
    """Read and check one profile file."""
    try:
        return _load(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None


def inline(coefficients: Mapping[str, Any]) -> Profile:
    """The profile that a scenario writes inline: coefficients, and the two memory figures if it has them."""
    where = "cost.coefficients"
    _check_keys(coefficients, (*TIMES, "token_ms"), _FIGURES, where)
    figures = {key: _number(coefficients, key, where) for key in _FIGURES if key in coefficients}
    return Profile("inline", _times(coefficients, where), _slopes(coefficients, where), **figures)  # type: ignore[arg-type]


def _profile(data: object, path: Path) -> Profile:
    where = str(path)
    if not isinstance(data, Mapping):
        raise ScenarioError(f"{where}: a profile is a mapping of keys")
    _check_keys(data, _REQUIRED, _OPTIONAL, where)
    status, tp = data["status"], data["tp"]
    if status not in STATUSES:
        raise ScenarioError(f"{_at(data, 'status', where)}: status is {' or '.join(STATUSES)}, not {status!r}")
    if not isinstance(tp, int) or isinstance(tp, bool) or tp < 1:
        raise ScenarioError(f"{_at(data, 'tp', where)}: tp is a number of GPUs, 1 or more, not {tp!r}")
    inner = data["coefficients"]
    if not isinstance(inner, Mapping):
        raise ScenarioError(f"{_at(data, 'coefficients', where)}: coefficients is a mapping of keys")
    _check_keys(inner, (*TIMES, "token_ms"), (), where)
    numbers = ("slowdown", "host0_ms", "host1_ms", *_FIGURES)
    return Profile(
        name=path.stem,
        times=_times(inner, where),
        token_ms=_slopes(inner, where),
        device=str(data["device"]),
        model=str(data["model"]),
        tp=int(tp),
        status=str(status),
        source=str(data["source"]).strip(),
        licence=str(data["licence"]).strip() if "licence" in data else None,
        error_percent=_ranges(data, "error_percent", "{kind of batch: [mean, 90th percentile]}", where),
        region=_ranges(data, "region", "{quantity: [least, most]}", where),
        resamples=_resamples(data, len(inner["token_ms"]) + len(TIMES), where),
        **{key: _number(data, key, where) for key in numbers if key in data},
    )


def _ranges(data: Mapping[str, Any], key: str, shape: str, where: str) -> dict[str, tuple[float, float]] | None:
    """A mapping of pairs of numbers, if it is there."""
    table = data.get(key)
    if table is None:
        return None
    at = _at(data, key, where)
    if not isinstance(table, Mapping) or any(not isinstance(v, list) or len(v) != 2 for v in table.values()):
        raise ScenarioError(f"{at}: {key} is a mapping {shape}")
    pairs = {str(kind): {0: value[0], 1: value[1]} for kind, value in table.items()}
    return {kind: (_number(pair, 0, at), _number(pair, 1, at)) for kind, pair in pairs.items()}


def _resamples(data: Mapping[str, Any], width: int, where: str) -> tuple[tuple[float, ...], ...]:
    """Rows of as many numbers as there are coefficients."""
    rows = data.get("resamples", [])
    at = _at(data, "resamples", where)
    if not isinstance(rows, list) or any(not isinstance(row, list) or len(row) != width for row in rows):
        raise ScenarioError(f"{at}: resamples is a list of rows of {width} numbers, one for each coefficient")
    return tuple(tuple(_number(dict(enumerate(row)), index, at) for index in range(width)) for row in rows)


def _times(data: Mapping[str, Any], where: str) -> dict[str, float]:
    return {key: _number(data, key, where) for key in TIMES}


def _slopes(data: Mapping[str, Any], where: str) -> tuple[tuple[int, float], ...]:
    table = data["token_ms"]
    at = _at(data, "token_ms", where)
    if not isinstance(table, Mapping) or not table:
        raise ScenarioError(f"{at}: token_ms is a mapping {{total tokens: ms a token}} that starts at 0")
    knots: dict[int, float] = {}
    for key in table:
        # JSON has no integer keys: a scenario that went through it says "256".
        if isinstance(key, bool) or not str(key).isdigit():
            raise ScenarioError(f"{_at(table, key, at)}: token_ms.{key}: a knot is a number of tokens")
        knots[int(key)] = _number(table, key, where, "token_ms.")
    if 0 not in knots:
        raise ScenarioError(f"{at}: token_ms must start at 0")
    return tuple(sorted(knots.items()))


def _number(data: Mapping[Any, Any], key: object, where: str, prefix: str = "") -> float:
    value = data[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ScenarioError(f"{_at(data, key, where)}: {prefix}{key} must be a number, zero or more, not {value!r}")
    return float(value)


def _check_keys(data: Mapping[str, Any], required: Iterable[str], optional: Iterable[str], where: str) -> None:
    known = (*required, *optional)
    for key in data:
        if key not in known:
            raise ScenarioError(f"{_at(data, key, where)}: unknown key {key!r}; {registry.suggest(key, known)}")
    for key in required:
        if key not in data:
            raise ScenarioError(f"{where}: key {key!r} is missing")


def _at(data: Mapping[Any, Any], key: object, where: str) -> str:
    """File and, where the mapping came from a file, the line of the key."""
    lines = getattr(data, "lc", None)
    if lines is None or lines.data is None or key not in lines.data or ":" in where:
        return where
    return f"{where}:{lines.data[key][0] + 1}"
