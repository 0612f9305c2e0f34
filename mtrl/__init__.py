"""The operator's package: everything around the agent and the service."""
