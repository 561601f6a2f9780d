"""Policies of AReaL."""
