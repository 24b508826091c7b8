"""The one place where a configuration becomes the options of a run."""

import msgspec

from bridle.config.schema import Config
from bridle.core.options import RunOptions


def apply_config(options: RunOptions, config: Config, runtime: str) -> RunOptions:
    """`options` with everything filled in that the caller left open and `config` says.

    What the caller said always wins. Aliases and provider prefixes apply to the model of the caller
    and to that of `config`. Raises `WrongUse` when the model's provider is not configured.
    """
    changes: dict[str, object] = {}
    model = options.model or config.default_model(runtime)
    if model is not None:
        resolved = config.resolve_model(model, runtime)
        changes["model"] = resolved.model
        changes["env"] = {**resolved.env, **options.env}
        changes["provider"] = options.provider or resolved.provider
    if options.budget_usd is None:
        changes["budget_usd"] = config.budgets.run_usd
    if options.timeout is None:
        changes["timeout"] = config.budgets.run_seconds
    if options.model_server is None:
        changes["model_server"] = config.model_server
    return msgspec.structs.replace(options, **changes)
