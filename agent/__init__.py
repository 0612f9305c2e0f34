"""The agent that plays a task: what runs in AgentCore, and nothing else."""
