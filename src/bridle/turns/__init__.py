"""One turn of one agent: the contracts of its wire, and the recorder that orders its events."""
