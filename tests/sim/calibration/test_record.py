"""The record of the calibration: errors as they are defined, and what ships as the measurements give it again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.calibration import recording
from sim.calibration.evidence import BANDWIDTH, composed_steps, errors_of
from sim.calibration.record import Error, dump, read_calibration
from sim.cli import main
from sim.cost import _profiles
from sim.scenario import RESULTS_VERSION
from tests.sim.calibration.shipped import DATA


def test_errors_by_hand():
    """Ten errors: the mean of sizes, with signs, and the largest."""
    found = Error.of([0.1, -0.1, 0.2, -0.2, 0.0, 0.0, 0.0, 0.0, 0.0, -0.4])
    assert (found.points, found.mean, found.bias, found.worst) == (10, 0.1, -0.04, 0.4)
    assert Error.of([-0.3]) == Error(1, 0.3, -0.3, 0.3)


@given(st.lists(st.floats(-0.9, 3), min_size=1, max_size=60))
def test_errors_are_ordered(errors):
    """Bias is no more than the mean, the mean no more than the worst tenth."""
    found = Error.of(errors)
    assert abs(found.bias) <= found.mean + 1e-4
    assert found.mean <= found.worst + 1e-4


def test_what_ships_is_of_this_version():
    """Every shipped profile that was measured is in it, and it says itself again."""
    found = read_calibration()
    assert found.results_version == RESULTS_VERSION
    measured = [
        name for name in _profiles.names() if _profiles.load(_profiles.FOLDER / f"{name}.yaml").status == "measured"
    ]
    assert sorted(each.profile for each in found.steps) == measured
    assert json.loads(dump(found)) == json.loads(
        (recording.Path(recording.__file__).parent / "record.json").read_text()
    )
    assert {each.preset for each in found.runs} == {"vllm", "sglang"}


def test_the_joint_fit_and_the_replay_are_as_the_page_has_them():
    """9.3, 4.4 and 11.0 % of steps; 6.3, 1.4 and 1.7 % of single requests, as docs/calibration.md says."""
    found = read_calibration()
    joint = found.steps_of(recording.JOINT).phases
    assert [round(100 * joint[name].mean, 1) for name in ("prefill", "decode", "mixed")] == [9.3, 4.4, 11.0]
    replay = next(each for each in found.runs if each.load == "10 requests a second").quantities
    assert [round(100 * replay[name].mean, 1) for name in ("ttft", "tpot", "e2e")] == [6.3, 1.4, 1.7]


def test_composed_steps_give_the_stored_errors():
    """One profile of each device, from the measurements."""
    for device in BANDWIDTH:
        profile = _profiles.find(device=recording.DEVICES[device], model="qwen3-8b", tp=1)
        steps = composed_steps(DATA, device, "qwen3-8b", 1, count=recording.STEPS, seed=recording.SEED)
        own = recording._by_phase(errors_of(profile, steps), steps.phase)
        stored = read_calibration().steps_of(profile.name).phases
        assert own.keys() == stored.keys()
        for phase, each in own.items():
            assert (each.mean, each.bias) == (
                pytest.approx(stored[phase].mean, abs=2e-4),
                pytest.approx(stored[phase].bias, abs=2e-4),
            )


@pytest.mark.parametrize("name", [each.profile for each in read_calibration().steps])
def test_a_profile_states_what_the_record_finds(name):
    """Of other batches: within two points of their mean absolute errors, in every phase."""
    stated = _profiles.load(_profiles.FOLDER / f"{name}.yaml").error_percent
    found = read_calibration().steps_of(name).phases
    assert stated.keys() == found.keys()
    for phase, (mean, _) in stated.items():
        assert mean == pytest.approx(100 * found[phase].mean, abs=2), phase


@pytest.mark.slow
def test_the_command_gives_what_ships(tmp_path):
    """All of it, from the measurements."""
    with pytest.raises(SystemExit) as ended:
        main(("calibrate", "--published", str(DATA), "--record", str(tmp_path / "record.json")))
    assert not ended.value.code
    made, stored = json.loads((tmp_path / "record.json").read_text()), json.loads(dump(read_calibration()))
    for part in ("steps", "runs"):
        for one, other in zip(made[part], stored[part], strict=True):
            for own, known in zip(_numbers(one), _numbers(other), strict=True):
                assert own == pytest.approx(known, abs=5e-4)


def _numbers(data):
    """Every number of nested data, in order."""
    if isinstance(data, dict):
        return [each for value in data.values() for each in _numbers(value)]
    return [data] if isinstance(data, int | float) else []


def test_what_goes_together(tmp_path, capsys):
    """A record is of all measurements, and of published ones."""
    for more, said in (
        (("--published", str(DATA), "--section", "joint"), "--section changes nothing with --record"),
        ((), "Give MEASUREMENTS to fit, --check RUN or --published FOLDER."),
    ):
        with pytest.raises(SystemExit) as ended:
            main(("calibrate", *more, "--record", str(tmp_path / "r.json")))
        assert ended.value.code == 2
        assert said in capsys.readouterr().err
