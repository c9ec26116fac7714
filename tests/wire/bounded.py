"""How property tests are run here: enough examples, the same ones every time, patient with a busy machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

bounded = settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
