"""One file per page; each runs by itself and under `dashboard/navigation.py`."""
