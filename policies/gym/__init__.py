"""Client-side endpoint selection of NeMo Gym."""
