"""``windtunnel steps``: an engine's log as measured steps."""

from pathlib import Path

import click


@click.command(short_help="Turn an engine's log into measured steps.")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("steps.csv"), show_default=True)
@click.option("--device", required=True, help="GPU type, as in h100-80gb.")
@click.option("--model", required=True, help="Model, as in llama-3-8b.")
@click.option("--tp", type=click.IntRange(min=1), default=1, show_default=True, help="Tensor-parallel size.")
def steps(log: Path, out: Path, device: str, model: str, tp: int) -> None:
    """Write the decode steps of LOG, of vLLM or SGLang, as a CSV for ``windtunnel calibrate``.

    vLLM: --enable-logging-iteration-details, with synchronous scheduling. SGLang: --decode-log-interval 1. No log says
    what stood before a prefill chunk: measure prefill by prompts of your own and add rows.
    """
    from sim.cli.text.calibrate import write_steps

    write_steps(log, out, device=device, model=model, tp=tp)
