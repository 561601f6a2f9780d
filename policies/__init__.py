"""Routing policies, one file each: what real routers do, as plain Python objects that know no simulator."""
