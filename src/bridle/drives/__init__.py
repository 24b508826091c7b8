"""How agents are driven: holding a process, and turning what it says into ordered events."""
