"""The command `mtrl completion`: what a shell needs to complete names with the tab key."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from mtrl.verb import Verb

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "mtrl"
VARIABLE = "_MTRL_COMPLETE"
"""Tells click that a shell is asking; derived from the program's name."""


@click.command("completion", cls=Verb)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that makes SHELL complete commands, options, jobs and deployments.

    \b
    Examples:
      mtrl completion bash >> ~/.bashrc
      mtrl completion zsh >> ~/.zshrc
      mtrl completion fish > ~/.config/fish/completions/mtrl.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # SHELLS are click's own
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
