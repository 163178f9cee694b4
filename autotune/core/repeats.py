"""How far two configurations differ, from a few launches of each. Pure.

Launches of the same flags differ, and two launches of each are too few to learn by how much. So the
variance of a launch is estimated with a prior: what published and measured servers repeat to, worth
``PRIOR_DEGREES`` observations, beside the spread between the launches at hand. Mean difference and
interval then follow Student's t with the degrees of freedom of both: the conjugate normal model
(Gelman et al., Bayesian Data Analysis, 3rd ed., section 3.3), known as the moderated t statistic
(Smyth 2004, Stat. Appl. Genet. Mol. Biol. 3:3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from autotune.core.stats import student_quantile
from autotune.core.trial import Interval

Verdict = Literal["better", "worse", "tie", "inconclusive"]

BETWEEN_SD = 0.015
"""ln(score) of two launches of the same flags: neighbours differ by 1 to 2 %, and the published
repeats of one H100 configuration by up to 7 %."""
PRIOR_DEGREES = 3.0
SMALLEST_GAIN = 0.005
"""A difference below half a percent is nobody's gain, however sure it is."""
SAME = 0.02
"""Differences that lie within 2 % are of no practical use: a tie (a region of practical
equivalence, Kruschke 2018, Adv. Methods Pract. Psychol. Sci. 1:270)."""


@dataclass(frozen=True, slots=True)
class LaunchNoise:
    """Of the score of one launch.

    Attributes:
        sd: standard deviation, on the log scale.
        degrees: of freedom behind it.
    """

    sd: float
    degrees: float

    @classmethod
    def of(cls, groups: Iterable[Sequence[float]], within_sd: float) -> LaunchNoise:
        """From scores of launches, those of the same flags and prompts in one group.

        Args:
            within_sd: what the interval of a single launch says of its score.
        """
        squares, degrees = 0.0, 0
        for group in groups:
            if len(group) > 1:
                mean = fmean(group)
                squares += sum((score - mean) ** 2 for score in group)
                degrees += len(group) - 1
        prior = PRIOR_DEGREES * (BETWEEN_SD**2 + within_sd**2)
        return cls(
            math.sqrt((prior + squares) / (PRIOR_DEGREES + degrees)), PRIOR_DEGREES + degrees
        )


def difference(
    ours: Sequence[float], theirs: Sequence[float], noise: LaunchNoise, n_comparisons: int = 1
) -> Interval:
    """Mean of ``ours`` minus mean of ``theirs`` with its 95 % interval, on the log scale.

    Args:
        ours, theirs: scores, at least one each.
        n_comparisons: how many such differences are judged together (Bonferroni's correction).
    """
    centre = fmean(ours) - fmean(theirs)
    error = noise.sd * math.sqrt(1 / len(ours) + 1 / len(theirs))
    half = student_quantile(1 - 0.025 / n_comparisons, noise.degrees) * error
    return Interval(centre, centre - half, centre + half)


def verdict_on(difference: Interval) -> Verdict:
    """What a difference of scores shows.

    ``better`` or ``worse``: the interval leaves 0 out. ``tie``: it holds 0 and no difference that
    would matter. ``inconclusive``: it holds both.
    """
    if abs(difference.value) >= SMALLEST_GAIN and not difference.low <= 0 <= difference.high:
        return "better" if difference.value > 0 else "worse"
    return "tie" if difference.low >= -SAME and difference.high <= SAME else "inconclusive"
