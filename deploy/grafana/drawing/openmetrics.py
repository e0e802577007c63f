"""Series as OpenMetrics text, a value for each step of the time that is drawn."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

BEGIN = 1781618400  # 2026-06-16 14:00 UTC
DAY = 24 * 60
MINUTES = 2 * DAY
STEP = 2
STEPS = range(0, MINUTES + 1, STEP)

Labels = dict[str, str]


@dataclass
class Text:
    """Series, gathered by metric as the format wants them: a value for each step, none where there is none."""

    kinds: dict[str, str] = field(default_factory=dict)
    series: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)

    def gauge(self, name: str, labels: Labels, value: Callable[[int], float | None]) -> None:
        """What is so at each step."""
        self.kinds[name] = "gauge"
        self.series.setdefault(name, {})[_selector(name, labels)] = [value(minute) for minute in STEPS]

    def counter(self, name: str, labels: Labels, rate: Callable[[int], float]) -> None:
        """What grows by so much a second; what is told twice is summed."""
        self.kinds[name] = "counter"
        total, grown = 0.0, []
        for minute in STEPS:
            total += 60 * STEP * max(0.0, rate(minute))
            grown.append(total)
        self._add(name, _selector(name, labels), grown)

    def histogram(
        self, name: str, labels: Labels, bounds: list[float], rate: Callable[[int], float], mean: Callable[[int], float]
    ) -> None:
        """So many a second, spread exponentially around a mean."""
        self.kinds[name] = "histogram"
        came = [60 * STEP * max(0.0, rate(minute)) for minute in STEPS]
        typical = [max(1e-5, mean(minute)) for minute in STEPS]
        for bound in [*bounds, math.inf]:
            le = "+Inf" if bound == math.inf else f"{bound:g}"
            each = [count * (1 - math.exp(-bound / wait)) for count, wait in zip(came, typical, strict=True)]
            self._add(name, _selector(f"{name}_bucket", {**labels, "le": le}), list(itertools.accumulate(each)))
        lengths = [count * wait for count, wait in zip(came, typical, strict=True)]
        self._add(name, _selector(f"{name}_sum", labels), list(itertools.accumulate(lengths)))
        self._add(name, _selector(f"{name}_count", labels), list(itertools.accumulate(came)))

    def _add(self, name: str, at: str, values: list[float]) -> None:
        before = self.series.setdefault(name, {}).get(at)
        if before is None:
            self.series[name][at] = list(values)
        else:
            self.series[name][at] = [(old or 0.0) + new for old, new in zip(before, values, strict=True)]

    def write(self) -> None:
        """Everything, to standard output."""
        for name, kind in self.kinds.items():
            family = name.removesuffix("_total") if kind == "counter" else name
            sys.stdout.write(f"# TYPE {family} {kind}\n")
            for at, values in self.series[name].items():
                rows = zip(STEPS, values, strict=True)
                sys.stdout.writelines(f"{at} {value:.9g} {BEGIN + 60 * minute}\n" for minute, value in rows if value is not None)
        sys.stdout.write("# EOF\n")


def _selector(name: str, labels: Labels) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in {"job": "paceline", **labels}.items())
    return f"{name}{{{inside}}}"
