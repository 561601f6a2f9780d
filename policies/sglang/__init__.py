"""Policies of the SGLang model gateway, sglang-router 0.3.2."""
