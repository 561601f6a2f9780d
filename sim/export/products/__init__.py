"""Routers as their operators start them: one module a product, each from the facts of an arm to its files."""
