"""Calibration: the cost of a step fitted to measured steps, and simulated runs held against measured ones.

``steps`` what is measured; ``fit`` form D to it; ``document`` a fit as a profile; ``mixed``, ``compose`` steps out of
tables of measured operators; ``runs`` a measured serving run as a log; ``score`` the errors of a simulation; ``check``
runs the simulator for it.
"""
