"""The Agent Client Protocol: one way to drive many agents, with a row of quirks for each."""
