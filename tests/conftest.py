"""What holds for every test: how fast this machine happens to be decides nothing."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("patient"), max_examples=2000)
settings.load_profile("patient")
