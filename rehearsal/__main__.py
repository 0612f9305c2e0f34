"""`python -m rehearsal`: serve until told to stop."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import uvicorn
from pydantic import ValidationError
from starlette.types import ASGIApp

from rehearsal.faults import with_faults
from rehearsal.outages import Line, listening_socket
from rehearsal.policies.registry import UnknownPolicy
from rehearsal.server import Service, build_app
from rehearsal.settings import Fault, FaultSettings, ServiceSettings

_FIELDS = ServiceSettings.model_fields


def _default(name: str) -> Any:
    return _FIELDS[name].default


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--state", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--port", default=_default("port"), help="0 takes a free port.")
@click.option("--agent-url", "agent_urls", multiple=True, default=_default("agent_urls"))
@click.option("--seed", default=_default("seed"))
@click.option("--policy", default=_default("policy"))
@click.option("--task", default=_default("task"))
@click.option("--upstream-url", default=None)
@click.option("--upstream-model", default=_default("upstream_model"))
@click.option("--region", default=_default("region"))
@click.option("--account", default=_default("account"))
@click.option("--concurrency", default=_default("concurrency"))
@click.option("--max-evaluations", default=_default("max_evaluations"))
@click.option("--timeout-scale", default=_default("timeout_scale"))
@click.option("--s3-endpoint", default=None)
@click.option("--role-trust", "role_trusts", multiple=True, default=_default("role_trusts"))
@click.option("--verify-signatures/--trust-signatures", default=_default("verify_signatures"))
@click.option("--agent-keys-s", type=float, default=None, help="Lifetime of keys for agents.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME=RATE",
    help=f"Make calls go wrong: {', '.join(Fault)}, or all.",
)
@click.option("--fault-seed", default=FaultSettings.model_fields["seed"].default)
def main(faults: tuple[str, ...], fault_seed: int, **options: Any) -> None:
    """Serve the rehearsal of SageMaker's multi-turn RL on the loopback interface.

    Prints one JSON line with its URL once it listens.
    """
    try:
        injected = FaultSettings.model_validate({"rates": fault_rates(faults), "seed": fault_seed})
        service = Service(ServiceSettings(**options, faults=injected))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).replace("_", "-")
        option = "--fault" if name == "rates" else f"--{name}"
        raise click.UsageError(f"{option}: {first['msg']}") from None
    except UnknownPolicy as error:
        raise click.UsageError(f"--policy: {error}") from None
    try:
        listener = listening_socket(service.settings.port)
    except OSError as error:
        raise click.UsageError(f"--port: {service.settings.port} cannot be used: {error}") from None
    listener.listen()
    service.port = listener.getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{service.port}"}), flush=True)
    asyncio.run(_serve(service, listener))
    sys.exit(0)


async def _serve(service: Service, listener: socket.socket) -> None:
    """Serve until a signal, with the faults that the settings ask for."""
    line, app = Line(), build_app(service)
    if not service.settings.faults.active:
        await uvicorn.Server(_config(app)).serve(sockets=[listener])
        return
    layer = with_faults(app, service, line)
    line.server = uvicorn.Server(_config(layer))
    async with asyncio.TaskGroup() as group:
        outage = group.create_task(layer.outages())
        await line.server.serve(sockets=[listener])
        outage.cancel()


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(app, log_level="warning", access_log=False)


def fault_rates(options: Sequence[str]) -> dict[str, float]:
    """Read `NAME=RATE` options; `all=RATE` sets every class, a later one wins.

    Raises:
        click.UsageError: not of that form.
    """
    rates: dict[str, float] = {}
    for option in options:
        name, _, rate = option.partition("=")
        try:
            value = float(rate)
        except ValueError:
            raise click.UsageError(
                f"--fault: {option!r} is not NAME=RATE, such as throttled=0.1"
            ) from None
        rates |= dict.fromkeys(Fault, value) if name == "all" else {name: value}
    return rates


if __name__ == "__main__":
    main()
