"""One folder per coding agent, the contract they fulfil, and the registry that finds them."""
