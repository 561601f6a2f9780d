"""Policies of llm-d."""
