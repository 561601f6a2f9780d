"""Policies of AIBrix."""
