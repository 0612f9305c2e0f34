"""Roles whose whole policy is inline, and whose every wildcard has a stated reason.

A policy inside its role exists as soon as the role does, so nothing can start before it may. A
wildcard without a reason fails the synthesis (cdk-nag, AwsSolutions-IAM5).
"""

# jsii names protocol parameters otherwise than their implementations do:
# pyright: reportArgumentType=false

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

WILDCARD_RULE = "AwsSolutions-IAM5"


@dataclass(frozen=True, slots=True)
class Grant:
    """One statement that allows something."""

    actions: Sequence[str]
    resources: Sequence[str]
    why: str = ""
    """Why a resource or action holds a wildcard; empty when none does."""
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def statement(self) -> iam.PolicyStatement:
        """The statement in CDK's terms."""
        return iam.PolicyStatement(
            actions=list(self.actions),
            resources=list(self.resources),
            conditions=dict(self.conditions) or None,
        )


def inline_role(
    scope: Construct, id: str, principal: Any, policies: Mapping[str, Sequence[Grant]], **props: Any
) -> iam.Role:
    """A role with the named policies inline; empty ones are left out."""
    given = {name: grants for name, grants in policies.items() if grants}
    role = iam.Role(
        scope,
        id,
        assumed_by=principal,
        inline_policies={name: document(grants) for name, grants in given.items()},
        **props,
    )
    stack = Stack.of(scope)
    for grants in given.values():
        for grant in grants:
            for finding in wildcards(stack, grant) if grant.why else ():
                acknowledge(role, grant.why, f"{WILDCARD_RULE}[{finding}]")
    return role


def document(grants: Sequence[Grant]) -> iam.PolicyDocument:
    """A policy document of the grants."""
    return iam.PolicyDocument(statements=[grant.statement() for grant in grants])


def acknowledge(construct: IConstruct, why: str, *rules: str) -> None:
    """Accept findings of cdk-nag on a construct and all below it.

    Args:
        rules: e.g. "AwsSolutions-S1", or one finding: "AwsSolutions-IAM5[Resource::*]".
    """
    Validations.of(construct).acknowledge(*[Acknowledgment(id=r, reason=why) for r in rules])


def wildcards(stack: Stack, grant: Grant) -> Iterator[str]:
    """The findings that cdk-nag makes of a grant."""
    for action in grant.actions:
        if "*" in action:
            yield f"Action::{action}"
    for resource in grant.resources:
        text = _flat(stack.resolve(resource))
        if "*" in text:
            yield f"Resource::{text}"


def _flat(value: Any) -> str:
    """A resolved value as cdk-nag writes it."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    if "Fn::Join" in value:
        return "".join(_flat(part) for part in value["Fn::Join"][1])
    if "Fn::Sub" in value:
        return value["Fn::Sub"].replace("${", "<").replace("}", ">")
    return json.dumps(value, separators=(",", ":"))


def regional_arn(stack: Stack, service: str, resource: str) -> str:
    """ARN of something in the stack's own account and Region."""
    return f"arn:{stack.partition}:{service}:{stack.region}:{stack.account}:{resource}"
