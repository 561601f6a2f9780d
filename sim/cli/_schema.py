"""``windtunnel schema``: what a scenario may hold, for editors."""

import click


@click.command(short_help="Print the JSON Schema of a scenario.")
def schema() -> None:
    """Print the JSON Schema of a scenario, for editors that complete and check YAML."""
    import json

    from sim.scenario import schema as make_schema

    click.echo(json.dumps(make_schema(), indent=2))
