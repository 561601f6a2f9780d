"""Policies of the vLLM project's router, vllm-router 0.1.17."""
