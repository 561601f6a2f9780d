"""Policies of SkyRL."""
