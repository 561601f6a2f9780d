"""One serving engine: prefix cache, batch former and clock of a vLLM- or SGLang-style scheduler."""
