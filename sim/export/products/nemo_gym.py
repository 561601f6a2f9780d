"""NeMo Gym, whose model server picks the engine of a session itself: the YAML of that server.

Source: NVIDIA-NeMo/Gym ``responses_api_models/vllm_model/app.py`` and ``configs/vllm_model.yaml`` at v0.5.0 and
07d6b0d07, ``nemo_gym/config_types.py`` (``num_workers``), ``nemo_gym/server_utils.py`` (three tries of a request, and
the session id in a cookie, drawn by the server). The rule has no option: a version has one or the other.
"""

from typing import Any, Final

from sim.export._facts import Facts
from sim.export._program import Program
from sim.export.products import _gateway as gateway
from sim.scenario import dump

NAME: Final = "nemo-gym"
FILE: Final = "nemo_gym.yaml"


class Server(Program):
    """The model server of a Gym configuration."""

    def __init__(self, facts: Facts) -> None:
        assert facts.chosen is not None
        super().__init__(f"NeMo Gym {facts.chosen.version}", "", gateway.settings_of(facts))
        self.urls = list(facts.urls)
        self.workers: int | None = None

    def script(self) -> str:
        """The YAML, with what Gym's own configuration of this server has."""
        server: dict[str, Any] = {
            "entrypoint": "app.py",
            "base_url": self.urls or "${policy_base_url}",
            "api_key": "${policy_api_key}",
            "model": "${policy_model_name}",
            "return_token_id_information": False,
            "uses_reasoning_parser": True,
        }
        if self.workers is not None:
            server["num_workers"] = self.workers
        lines = list(self.head())
        lines += [f"# cannot run as simulated: {each}" for each in self.settings.errors()]
        return "\n".join(lines) + "\n" + dump({"policy_model": {"responses_api_models": {"vllm_model": server}}})


def configure(facts: Facts) -> dict[str, Program]:
    """The server's YAML."""
    program = Server(facts)
    settings = program.settings
    if not program.urls:
        program.notes.append(f"policy_base_url is a list: the addresses of the {facts.engines} engines, in one order.")
    settings.place("router.policy.kind", "built in, this version")
    if "processes" in facts.policy:
        program.workers = settings.place("router.policy.processes", "num_workers")
        settings.place("router.policy.stay_share", "of the pooled connections: measured, not set")
    for part, why in (
        ("retries", "it makes three tries of its own, of every request"),
        ("health", "it has none"),
        ("breaker", "it has none"),
        ("limit", "it has none"),
        ("telemetry", "it reads no report"),
    ):
        for name in [f"router.{part}", *settings.names(f"router.{part}")]:
            if name in settings.values:
                settings.built_in(name, None, why)
    gateway.set_index(settings, facts, reads_content=False)
    gateway.set_run(settings, facts)
    settings.built_in("router.replicas", 1, "its processes are a parameter of the policy")
    return {FILE: program}
