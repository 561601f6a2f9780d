"""Policies of smg 1.13.0, the successor of the SGLang model gateway."""
