"""The commands of the benchmarks, for `appliance bench` and `python -m benchmarks`."""
