"""The session port over an appliance in this very process. Imported after the first paint: it loads a lot."""
