"""Policies of OpenRLHF."""
