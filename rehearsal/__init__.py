"""The training service on one machine, speaking the real wire protocols."""
