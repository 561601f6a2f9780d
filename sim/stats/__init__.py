"""Statistics of paired comparisons: what a difference between two arms is worth, and how many pairs would show it.

    paired      ratios within pairs, means, their intervals
    strata      cells or placement classes, recombined
    inference   permutation, Spearman, equivalence, verdicts
    many        Holm and Dunnett over several arms
    shape       quantiles by order statistics, two humps, what common streams bought
    steady      MSER-5 and batch means
    power       pairs that a real campaign needs, and their cost
    stopping    are the pairs so far enough?
    selection   which of many arms is best, and how sure
    future      where the mean of the next few observations falls
    shares      a ratio of two means: what share of a difference is left; the share that a count tells of
    response    a smooth response fitted to paired measures of points
    tuning      where a noisy response is best, with a budget of runs

Pure functions of arrays. SciPy has the distributions; ``scipy.stats`` is imported where it is used, because it takes
longer to load than the comparisons of a run take to compute.
"""

from sim.stats.paired import Better, Caution, Floats, Mean, Ratio, bca_interval, compare, geometric_ratio, mean

__all__ = ["Better", "Caution", "Floats", "Mean", "Ratio", "bca_interval", "compare", "geometric_ratio", "mean"]
