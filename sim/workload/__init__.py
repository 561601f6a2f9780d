"""Workloads: who asks what, and when. One file a kind; ``_model`` says what each of them makes.

A kind is a dataclass whose fields are its YAML keys, with two methods: ``generate(streams, base)`` gives the workload
of one replication, every draw from a column of ``streams`` named ``workload/<purpose>``; ``files(base)`` names the
files that it reads, relative to the scenario's folder ``base``.
"""
