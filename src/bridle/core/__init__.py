"""What every layer shares.

Contracts: events, errors, options, results, usage, features, handles, capabilities. Texts:
completion marker, redaction, structured answers, spelling. Access to the machine that every layer
needs: files and user folders (`files`), git (`git`, `git_hold`) and the installed adapters
(`entry_points`). Nothing here starts an agent or uses the network.
"""
