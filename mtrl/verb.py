"""What every verb of `mtrl` has in common: it explains itself by -h as by --help.

A context setting on `main` would not do: click keeps the first help option that a command makes, so
a command that is first run by itself, as tests do, would never take it from its parent.
"""

from __future__ import annotations

import click


class Verb(click.Command):
    """A command that takes -h however it is reached."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """click's hook; the names do not depend on the context."""
        return ["-h", "--help"]


class VerbGroup(Verb, click.Group):
    """A group of verbs; those made by its decorator are verbs too."""

    command_class = Verb
