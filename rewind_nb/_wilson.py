"""The interval of a rate that was seen in few trials."""

from __future__ import annotations

import math

Z95 = 1.959963984540054  # of the normal distribution, two-sided 95 %


def wilson(passes: int, n: int, z: float = Z95) -> tuple[float, float]:
    """The score interval of a rate: which true rates *passes* out of *n* do not speak against.

    Unlike the textbook interval it stays within 0 and 1 and says something of 0 out of *n*
    (E. B. Wilson, Probable inference, the law of succession, and statistical inference,
    Journal of the American Statistical Association 22, 1927, pages 209 to 212).

    Args:
        passes: of them.
        n: trials, each drawn on its own; with none nothing is known.
        z: how sure; 95 % by default.

    Example:
        >>> low, high = wilson(8, 10)
        >>> round(low, 3), round(high, 3)
        (0.49, 0.943)
    """
    if n == 0:
        return 0.0, 1.0
    rate, spread = passes / n, z * z / n
    centre = rate + spread / 2
    half = z * math.sqrt(rate * (1 - rate) / n + spread / (4 * n))
    low = 0.0 if passes == 0 else max(0.0, (centre - half) / (1 + spread))
    high = 1.0 if passes == n else min(1.0, (centre + half) / (1 + spread))
    return low, high
