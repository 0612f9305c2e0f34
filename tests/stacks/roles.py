"""What a role in a template may do, and who may take it."""

from __future__ import annotations

from typing import Any


def statements(role: dict[str, Any]) -> list[dict[str, Any]]:
    policies = role["Properties"].get("Policies", [])
    return [s for policy in policies for s in policy["PolicyDocument"]["Statement"]]


def trust(role: dict[str, Any]) -> list[dict[str, Any]]:
    return role["Properties"]["AssumeRolePolicyDocument"]["Statement"]


def actions(role: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for statement in statements(role):
        action = statement["Action"]
        found |= {action} if isinstance(action, str) else set(action)
    return found


def allowing(role: dict[str, Any], action: str) -> dict[str, Any]:
    (found,) = [s for s in statements(role) if action in s["Action"]]
    return found
