"""Calibration: the cost of a step fitted to measured steps, and simulated runs held against measured ones.

``steps`` what is measured; ``step_log`` that from an engine's log; ``mixed``, ``operators``, ``compose`` from tables of
measured operators; ``fit`` form D to it; ``document`` a fit as a profile; ``runs`` a measured serving run as a log;
``score`` the errors of a simulation; ``check``, ``published`` run the simulator for them.
"""
