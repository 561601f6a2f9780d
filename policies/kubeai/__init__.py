"""Policies of KubeAI."""
