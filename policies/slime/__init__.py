"""Policies of slime."""
