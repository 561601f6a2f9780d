"""Policies of NeMo-RL."""
