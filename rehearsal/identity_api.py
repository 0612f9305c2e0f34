"""STS and IAM over the query protocol, as far as clients ask before they submit a job.

Who is calling, what a role trusts, and whether it may do something. Nothing here is enforced: the
service has no policies, so every role that is asked about exists and may do everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, quote
from xml.sax.saxutils import escape

from starlette.requests import Request
from starlette.responses import Response

from rehearsal.errors import ServiceError, validation
from rehearsal.settings import ServiceSettings

STS = "https://sts.amazonaws.com/doc/2011-06-15/"
IAM = "https://iam.amazonaws.com/doc/2010-05-08/"
CREATED = "2026-01-01T00:00:00Z"
"""Roles have always been there."""
Fields = Mapping[str, str]


class IdentityApi:
    """Dispatches form-encoded POSTs by their `Action`."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._actions: dict[str, tuple[str, Callable[[Fields], str]]] = {
            "GetCallerIdentity": (STS, self._caller),
            "GetRole": (IAM, self._role),
            "SimulatePrincipalPolicy": (IAM, self._simulation),
        }

    async def handle(self, request: Request) -> Response:
        """Answer one call.

        Raises:
            ServiceError: an action that is not offered, by name.
        """
        fields = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        action = fields.get("Action", "")
        if action not in self._actions:
            raise ServiceError("InvalidAction", f"{action!r} is not offered here")
        namespace, answer = self._actions[action]
        return Response(
            f'<{action}Response xmlns="{namespace}">'
            f"<{action}Result>{answer(fields)}</{action}Result></{action}Response>",
            media_type="text/xml",
        )

    def _caller(self, fields: Fields) -> str:
        account = self._settings.account
        arn = f"arn:aws:iam::{account}:user/rehearsal"
        return f"<Arn>{arn}</Arn><UserId>rehearsal</UserId><Account>{account}</Account>"

    def _role(self, fields: Fields) -> str:
        name = fields.get("RoleName", "")
        if not name:
            raise validation("RoleName: required, a string")
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": list(self._settings.role_trusts)},
                    "Action": ["sts:AssumeRole", "sts:TagSession"],
                }
            ],
        }
        shown = escape(name)
        return (
            f"<Role><Path>/</Path><RoleName>{shown}</RoleName><RoleId>AROAREHEARSAL</RoleId>"
            f"<Arn>arn:aws:iam::{self._settings.account}:role/{shown}</Arn>"
            f"<CreateDate>{CREATED}</CreateDate>"
            f"<AssumeRolePolicyDocument>{quote(json.dumps(trust))}</AssumeRolePolicyDocument>"
            "</Role>"
        )

    def _simulation(self, fields: Fields) -> str:
        actions = [value for key, value in fields.items() if key.startswith("ActionNames.member.")]
        members = "".join(
            f"<member><EvalActionName>{escape(action)}</EvalActionName>"
            "<EvalDecision>allowed</EvalDecision></member>"
            for action in actions
        )
        return f"<EvaluationResults>{members}</EvaluationResults><IsTruncated>false</IsTruncated>"
