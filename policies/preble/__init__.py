"""Policies of Preble."""
