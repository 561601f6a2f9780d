"""Policies of Ray Serve LLM."""
