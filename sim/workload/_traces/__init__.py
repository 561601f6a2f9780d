"""Recorded traces in the formats that others publish. One file a format; ``_formats`` finds the one of a file.

A reader turns rows into calls (``_call``), one at a time, in order of the file, and checks them with their line
numbers. What is built from calls: a recording in memory that a workload replays (``_recording``), and the figures of a
file too large for memory (``_figures``).
"""
