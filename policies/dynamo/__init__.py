"""Policies of NVIDIA Dynamo."""
