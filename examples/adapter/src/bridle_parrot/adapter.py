"""The adapter: how Parrot is started and where its model is. Everything else Bridle does."""

from collections.abc import Mapping

from bridle.adapter import (
    CliAdapter,
    Command,
    Environment,
    Launch,
    Provider,
    Recorder,
    RunPlan,
    WrongUse,
    convert,
    provider_key,
)
from bridle_parrot.product import PRODUCT, ParrotOptions
from bridle_parrot.stream import ParrotNormalizer


class ParrotRuntime(CliAdapter):
    """Parrot, one process for each prompt."""

    product = PRODUCT
    options_type = ParrotOptions

    def environment(self, launch: Launch) -> Environment:
        options, child = launch.options, dict(launch.env)
        own = convert(self.settings.options, ParrotOptions)
        child["PARROT_MODEL"] = options.model or child.get("PARROT_MODEL") or own.model
        if own.api_base:
            child.setdefault("PARROT_URL", own.api_base)
        if options.provider is not None:
            child |= self.provider_env(options.provider, options.model, child)
        if options.model_server is not None:
            child["PARROT_URL"] = f"{options.model_server.url.rstrip('/')}/v1"
            child["PARROT_KEY"] = options.model_server.api_key
        if not child.get("PARROT_URL"):
            raise WrongUse("PARROT_URL is not set", hint="it must hold the model's address")
        if options.system_prompt is not None:
            child["PARROT_SYSTEM"] = options.system_prompt
        if options.append_system_prompt is not None:
            child["PARROT_RULES"] = launch.write("rules.md", options.append_system_prompt)
        key = child.get("PARROT_KEY")
        return Environment(child, secrets=(key,) if key else ())

    def command(self, launch: Launch, env: Mapping[str, str]) -> Command:
        if launch.mode != "run":
            raise WrongUse("parrot takes its prompt on stdin", hint="run it with `bridle run`")
        return Command(words=launch.options.raw_args, stdin=launch.options.prompt.encode())

    def provider_env(
        self, provider: Provider, model: str | None, env: Mapping[str, str]
    ) -> dict[str, str]:
        routed = {
            "PARROT_URL": provider.base_url,
            "PARROT_KEY": provider_key(provider, env, self.id),
            "PARROT_MODEL": model,
        }
        return {name: value for name, value in routed.items() if value}

    def normalizer(self, plan: RunPlan, recorder: Recorder) -> ParrotNormalizer:
        return ParrotNormalizer(recorder)
