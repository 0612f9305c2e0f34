"""Errors of the service as clients see them: a code, a message, an HTTP status."""

from __future__ import annotations

MESSAGE_MAX = 1000
"""Characters; what a message quotes of a request may be of any length."""


class ServiceError(Exception):
    """An error that goes out on the wire under its code."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        self.code = code
        self.message = message if len(message) <= MESSAGE_MAX else f"{message[:MESSAGE_MAX]} ..."
        super().__init__(self.message)
        self.status = status


def validation(message: str) -> ServiceError:
    """The request is malformed; the message names the field."""
    return ServiceError("ValidationException", message)


def not_found(message: str) -> ServiceError:
    """The SageMaker API's error for a missing resource (HTTP 400, as in its JSON protocol)."""
    return ServiceError("ResourceNotFound", message)


def in_use(message: str) -> ServiceError:
    """The resource exists already or is busy."""
    return ServiceError("ResourceInUse", message)


def limit_exceeded(message: str) -> ServiceError:
    """A quota is used up."""
    return ServiceError("ResourceLimitExceeded", message)
