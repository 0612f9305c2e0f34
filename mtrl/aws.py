"""AWS clients for the operator's commands, and their failures in words.

Endpoints, credentials and Region come from the environment alone, as boto3 reads it, so a command
cannot tell whether it speaks to AWS or to a service on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import boto3
import click
from botocore import exceptions as boto
from botocore.config import Config
from botocore.parsers import ResponseParserError

from mtrl.errors import InputError, MtrlError
from mtrl.verb import Verb

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60
ATTEMPTS = 5
"""Of each call, with botocore's own pauses between them; rides out short throttling."""
F = TypeVar("F", bound=Callable[..., Any])

_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_NOT_ACCEPTED = {
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "SignatureDoesNotMatch",
    "InvalidSignatureException",
    "AuthFailure",
}
_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"}
_THROTTLED = {
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TooManyRequestsException",
    "RequestLimitExceeded",
    "SlowDown",
}
_NOT_OFFERED = {"UnknownOperationException", "InvalidAction", "UnsupportedOperation"}
_UNREACHABLE = (
    boto.EndpointConnectionError,
    boto.ConnectionClosedError,
    boto.ConnectTimeoutError,
    boto.ReadTimeoutError,
    boto.HTTPClientError,
)


class CloudError(MtrlError):
    """AWS could not be asked: credentials, permissions, throttling or the network.

    `code` is one of no-credentials, denied, throttled, unreachable, not-offered, refused.
    """

    exit_code = 4


class Cloud:
    """Clients of one Region, each made once, with the credentials found when it was made."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._session = boto3.Session()
        self._client = cache(self._make)

    def client(self, service: str) -> Any:
        """A boto3 client."""
        return self._client(service, READ_TIMEOUT_S, ATTEMPTS)

    def single_try(self, service: str, read_timeout_s: float) -> Any:
        """A client that asks once and waits so long for an answer."""
        return self._client(service, read_timeout_s, 1)

    @property
    def account(self) -> str:
        """The account that the credentials belong to."""
        return self.client("sts").get_caller_identity()["Account"]

    def _make(self, service: str, read_timeout_s: float, attempts: int) -> Any:
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=read_timeout_s,
            retries={"mode": "standard", "total_max_attempts": attempts},
        )
        return self._session.client(service, region_name=self.region, config=config)


def region_option(command: F) -> F:
    """Adds `--region`."""
    return click.option("--region", help="AWS Region; otherwise as boto3 finds it.")(command)


def chosen_region(given: str | None) -> str:
    """The Region given, or the environment's.

    Raises:
        InputError: there is none.
    """
    found = given or os.environ.get("AWS_REGION") or boto3.Session().region_name
    if not found:
        raise InputError(
            "no-region", "--region: no AWS Region is set.", "Give one, or export AWS_REGION."
        )
    return found


def error_code(error: BaseException) -> str:
    """The service's error code, or "" for an error that is none of a service's."""
    if isinstance(error, boto.ClientError):
        return error.response.get("Error", {}).get("Code", "").rsplit("#", 1)[-1]
    return ""


def error_message(error: BaseException) -> str:
    """What the service said."""
    if isinstance(error, boto.ClientError):
        return error.response.get("Error", {}).get("Message", "") or str(error)
    return str(error)


def is_missing(error: BaseException) -> bool:
    """True when a service says that the thing asked for does not exist."""
    code, said = error_code(error), error_message(error).lower()
    words = ("not found", "does not exist", "could not find", "no such")
    return code in {
        "ResourceNotFound",
        "ResourceNotFoundException",
        "NoSuchEntity",
        "NoSuchKey",
        "NoSuchBucket",
        "NotFound",
    } or (
        (code == "404" and _answers_without_body(error))
        or (code.startswith("Validation") and any(word in said for word in words))
    )


def is_not_offered(error: BaseException) -> bool:
    """True when what answers at the endpoint does not know the call at all."""
    if isinstance(error, ResponseParserError):
        return True
    code = error_code(error)
    if code in _NOT_OFFERED:
        return True
    # A bare HTTP status in place of an error code comes from something else than the service.
    return code.isdigit() and code.startswith("4") and not _answers_without_body(error)


def _answers_without_body(error: BaseException) -> bool:
    """True for calls whose error code is the bare HTTP status."""
    return isinstance(error, boto.ClientError) and error.operation_name.startswith("Head")


def is_denied(error: BaseException) -> bool:
    """True when the caller may not make the call."""
    return error_code(error) in _DENIED


def is_throttled(error: BaseException) -> bool:
    """True when a service asks for fewer calls."""
    return error_code(error) in _THROTTLED


def is_passing(error: BaseException) -> bool:
    """True for what a later try may not meet: throttling, the network, the service's own faults."""
    if isinstance(error, boto.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return is_throttled(error) or status >= 500
    return isinstance(error, _UNREACHABLE)


def is_unusable_login(error: BaseException) -> bool:
    """True when the credentials are missing, expired or not accepted."""
    if isinstance(error, boto.ClientError):
        return error_code(error) in _EXPIRED | _NOT_ACCEPTED
    return isinstance(error, _NO_CREDENTIALS)


_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
    boto.SSOError,
    boto.ProfileNotFound,
)
_LOG_IN = "Log in (aws sso login, or export AWS_PROFILE) and try again."


def in_words(error: Exception) -> CloudError:
    """Say what a botocore error means and what to do about it."""
    if isinstance(error, boto.ClientError):
        return _service_error(error)
    if isinstance(error, ResponseParserError):
        return CloudError("not-offered", "the endpoint does not offer this call.")
    if isinstance(error, _NO_CREDENTIALS):
        return CloudError("no-credentials", f"no usable AWS credentials: {error}.", _LOG_IN)
    if isinstance(error, _UNREACHABLE):
        return CloudError(
            "unreachable",
            f"the service cannot be reached: {error}",
            "Check the network, the Region and AWS_ENDPOINT_URL.",
        )
    return CloudError("refused", f"the AWS client failed: {error}")


def _service_error(error: boto.ClientError) -> CloudError:
    code, said = error_code(error), error_message(error).rstrip(".")
    call = error.operation_name
    if code in _EXPIRED:
        return CloudError("no-credentials", f"the AWS credentials have expired ({call}).", _LOG_IN)
    if code in _NOT_ACCEPTED:
        return CloudError("no-credentials", f"{call}: credentials not accepted: {said}.", _LOG_IN)
    if code in _DENIED:
        remedy = f"Let your role call {call}; `mtrl doctor` checks all that is needed."
        return CloudError("denied", f"{call} is not permitted: {said}.", remedy)
    if code in _THROTTLED:
        return CloudError("throttled", f"{call} is throttled: {said}.", "Try again in a minute.")
    if is_not_offered(error):
        return CloudError("not-offered", f"the endpoint does not offer {call}.")
    return CloudError("refused", f"{call}: {said}.")


CLOUD_ERRORS = (boto.BotoCoreError, boto.ClientError, ResponseParserError)
"""All that a call of boto3 raises."""


@contextmanager
def errors_in_words() -> Iterator[None]:
    """Turn botocore's errors into CloudError."""
    try:
        yield
    except CLOUD_ERRORS as error:
        raise in_words(error) from error


class CloudCommand(Verb):
    """A command whose AWS failures reach a person in words."""

    def invoke(self, ctx: click.Context) -> Any:
        with errors_in_words():
            return super().invoke(ctx)
