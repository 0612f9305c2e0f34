"""The errors that a person may read: a code, what is wrong, and what to do about it."""

from __future__ import annotations


class MtrlError(Exception):
    """Base of every error shown to the operator.

    Attributes:
        code: stable, for scripts (kebab-case).
        message: names the field or thing and its value.
        remedy: what to do next; may be empty.
        exit_code: what the CLI exits with.
    """

    exit_code = 1

    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.code = code
        self.message = message
        self.remedy = remedy


class InputError(MtrlError):
    """Something the operator gave (file, option, setting) cannot be used."""

    exit_code = 2
