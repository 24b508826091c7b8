"""Live sessions: conversations with agents that outlive the program which started them."""
