"""Policies of ROLL."""
