"""How property tests are run here: enough examples, the same ones every time, patient with a busy machine.

`@bounded`, or `@settings(bounded, max_examples=150)` for another number of them.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The first example of a process reads the constants of every module of ours: on a busy machine that alone takes
# longer than `too_slow` allows, whatever is drawn.
bounded = settings(
    max_examples=200, deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
