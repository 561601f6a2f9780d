"""Policies of prime-rl."""
