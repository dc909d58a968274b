"""Which model a stage gets: by its own attributes, its profile, the workflow's default, the run's default."""

from dataclasses import dataclass

from pipeline.language.model import LlmStage, Models, Profile


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model with what goes with it; None leaves it to the backend."""

    model: str | None = None
    provider: str | None = None
    reasoning_effort: str | None = None


UNCHOSEN = ModelChoice()


def choose_model(stage: LlmStage, models: Models, run_default: ModelChoice = UNCHOSEN) -> ModelChoice:
    """Take each attribute from the first level that has it.

    A provider belongs to a model: below the level that names the model none is looked for.
    """
    levels = [
        ModelChoice(stage.model, stage.provider, stage.reasoning_effort),
        _of_profile(models.profile(stage.model_profile) if stage.model_profile else None),
        _default(models),
        run_default,
    ]
    named = next((index for index, level in enumerate(levels) if level.model), len(levels) - 1)
    provider = next((level.provider for level in levels[: named + 1] if level.provider), None)
    effort = next((level.reasoning_effort for level in levels if level.reasoning_effort), None)
    return ModelChoice(levels[named].model, provider, effort)


def _default(models: Models) -> ModelChoice:
    """`models.default` names a profile, or is a model itself."""
    if models.default is None:
        return UNCHOSEN
    profile = models.profile(models.default)
    return _of_profile(profile) if profile else ModelChoice(models.default)


def _of_profile(profile: Profile | None) -> ModelChoice:
    if profile is None:
        return UNCHOSEN
    return ModelChoice(profile.model, profile.provider, profile.reasoning_effort)
