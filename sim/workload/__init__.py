"""Workloads: who asks what, and when. One file a kind; ``_model`` says what each of them makes."""
