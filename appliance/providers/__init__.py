"""Adapters to what runs models; each satisfies `appliance.core.ports.Provider`."""
