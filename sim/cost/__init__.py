"""What one engine step costs, and how many KV tokens a GPU has room for.

A cost model is one module without a leading underscore: a dataclass whose fields are its YAML keys, with
``compile(...) -> Coefficients``. Engines see the compiled coefficients alone.
"""
