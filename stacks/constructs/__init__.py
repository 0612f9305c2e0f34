"""The reusable pieces that the stacks assemble."""
