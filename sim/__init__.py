"""windtunnel: a discrete-event simulator of request routing over fleets of LLM engines."""
