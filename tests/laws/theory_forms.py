"""Closed forms of queueing theory, in mean services, and what a step of finite length changes in them."""

from math import factorial

import numpy as np
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.stats import lognorm


def single_server(load, second_moment):
    """Mean wait of M/G/1 (Pollaczek-Khinchine)."""
    return load * second_moment / (2 * (1 - load))


def erlang_c(servers, load):
    """Chance to wait in M/M/c."""
    offered = servers * load
    last = offered**servers / factorial(servers) / (1 - load)
    return last / (sum(offered**k / factorial(k) for k in range(servers)) + last)


def central_queue(servers, load):
    """Mean wait of M/M/c."""
    return erlang_c(servers, load) / (servers * (1 - load))


def in_turn(servers, load):
    """Mean wait of E_c/M/1: one of c engines that Poisson customers visit in turn."""
    if servers == 1:
        return load / (1 - load)
    rate = servers * load
    root = brentq(lambda s: s - (rate / (rate + 1 - s)) ** servers, 0, 1 - 1e-9 - (1 - load) / 2)
    return root / (1 - root)


def power_of_two(load):
    """Mean stay where each customer takes the better of two of infinitely many queues."""
    return sum(load ** (2**k - 2) for k in range(1, 40))


def group_quantile(siblings, sigma, level=0.95):
    """Quantile of the longest of so many lognormal lengths of mean 1."""
    return lognorm.ppf(level ** (1 / siblings), sigma, scale=np.exp(-(sigma**2) / 2))


def shared(load):
    """Mean stay under processor sharing, whatever the law of service."""
    return 1 / (1 - load)


def shared_in_steps(load, law):
    """The same where all of the batch advance by one step together and who arrives waits for the step's end.

    A step of n sequences takes n*h and brings Poisson(lambda*n*h) more: a branching process that starts with one
    individual, who lives K steps and has Poisson(r) children in each, r = lambda*h. With Z(t) the individuals of step
    t and A = E sum Z(t)^2, lambda*(1 - load)*(h + lambda*h^2/2)*A are present on average, and Little gives the stay.
    """
    h, r = 1 / law.steps, load / law.steps
    if law.atoms:
        squares = _squares(load, r, law)
    else:
        squares = (2 - h) / (h * (1 - load) ** 2 * (2 - h * (1 - load)))
    return (1 - load) * h * (1 + r / 2) * squares


def _squares(load, r, law):
    """E sum Z(t)^2 by the recursion over the first individual's life, for a law of few atoms."""
    longest = max(steps for _, steps in law.atoms)
    length = int(60 * longest / (1 - load))
    steps = np.arange(length)
    alive = sum(chance * (steps < life) for chance, life in law.atoms)  # P(K > t)
    unit = np.zeros(longest + 1)
    unit[1:] = -r * alive[:longest]
    unit[0] = 1.0
    mean = lfilter([1.0], unit, alive)  # m(t) = P(K > t) + r * sum_s P(K >= s) m(t - s)
    assert abs(mean.sum() * (1 - load) / law.steps - 1) < 1e-9
    before = np.concatenate([[0.0], np.cumsum(mean)])  # sum of m up to t - 1
    own = law.steps + 2 * r * (alive * before[:-1]).sum()
    children = 0.0
    for chance, life in law.atoms:
        late = np.concatenate([np.zeros(life), before[: length - life]])
        children += chance * ((before[:-1] - late) ** 2).sum()
    return (own + r * r * children) / (1 - load)
