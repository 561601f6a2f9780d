"""How arms would be started, as a review shows it."""

from sim.export import changed_lines, starts
from sim.scenario import load_scenario


def lines(name, one, other, *over):
    found = starts(load_scenario(name, over))
    return list(changed_lines(found[one], found[other]))


def test_a_scope_changes_the_keys_alone():
    """Router and engines are the same to the letter; the client says which keys it sends."""
    [(file, before, after)] = lines("slime_group_affinity", "sample", "group")
    assert file == "client.json"
    assert (before.partition(":")[0], after.partition(":")[0]) == (
        "client.key_scope = session",
        "client.key_scope = group",
    )


def test_a_threshold_changes_one_flag():
    """And nothing else; other values than the default are no other lines."""
    base = "router.policy={kind: vllm.cache_aware}"
    over = "arms.sticky_least_loaded.router.policy={kind: vllm.cache_aware, balance_abs_threshold: 8}"
    assert lines("smoke", "round_robin", "sticky_least_loaded", base, over) == [
        ("router.sh", "--balance-abs-threshold 64", "--balance-abs-threshold 8")
    ]


def test_a_product_changes_its_file():
    """A file that one arm has not is shown as one that came or went; a policy that nobody ships says so."""
    found = starts(load_scenario("nemo_gym_12_engines"))
    files = {name for name, _, _ in changed_lines(found["consistent_hash"], found["sha256_mod"])}
    assert files == {"client.json", "nemo_gym.yaml", "router.sh"}
    assert (found["sha256_mod"].product, found["sticky_least_loaded"].product) == ("nemo-gym c84b7ed4b", "")
    assert found["sticky_least_loaded"].impossible
