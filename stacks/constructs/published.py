"""Values of a stack for the stacks after it: outputs that are read while those deploy.

No export ties the stacks together, so a value may change, and a stack may go, in any order.
"""

from __future__ import annotations

from aws_cdk import CfnOutput, Fn, Stack


def publish(stack: Stack, name: str, value: str) -> str:
    """Make a value an output of its stack; return what another stack uses to read it."""
    CfnOutput(stack, name, value=value)
    return Fn.get_stack_output(stack.stack_name, name)
