"""Policies of vLLM production-stack."""
