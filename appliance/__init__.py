"""A local, self-hosted inference appliance: open-weight models on your own machine, answers you can check."""

__version__ = "0.1.0"
