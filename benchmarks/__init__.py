"""Measures the appliance and reports figures with the machine they come from."""
