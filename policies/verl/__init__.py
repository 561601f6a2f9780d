"""Policies of verl."""
