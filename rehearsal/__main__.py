"""`python -m rehearsal`: serve until told to stop."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import click
import uvicorn
from pydantic import ValidationError

from rehearsal.policies.registry import UnknownPolicy
from rehearsal.server import Service, build_app
from rehearsal.settings import ServiceSettings

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
@click.option("--verify-signatures/--trust-signatures", default=_default("verify_signatures"))
def main(**options: Any) -> None:
    """Serve the rehearsal of SageMaker's multi-turn RL on the loopback interface.

    Prints one JSON line with its URL once it listens.
    """
    try:
        service = Service(ServiceSettings(**options))
    except ValidationError as error:
        first = error.errors()[0]
        option = "--" + str(first["loc"][0]).replace("_", "-")
        raise click.UsageError(f"{option}: {first['msg']}") from None
    except UnknownPolicy as error:
        raise click.UsageError(f"--policy: {error}") from None
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", service.settings.port))
    except OSError as error:
        raise click.UsageError(f"--port: {service.settings.port} cannot be used: {error}") from None
    service.port = listener.getsockname()[1]
    config = uvicorn.Config(build_app(service), log_level="warning", access_log=False)
    print(json.dumps({"url": f"http://127.0.0.1:{service.port}"}), flush=True)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
    sys.exit(0)


if __name__ == "__main__":
    main()
