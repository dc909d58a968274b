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
    profile = models.profile(stage.model_profile) if stage.model_profile else None
    model = provider = effort = None
    for level in (stage, profile or UNCHOSEN, _default(models), run_default):
        if not model:
            model, provider = level.model, provider or level.provider
        effort = effort or level.reasoning_effort
    return ModelChoice(model, provider, effort)


def _default(models: Models) -> Profile | ModelChoice:
    """`models.default` names a profile, or is a model itself."""
    if models.default is None:
        return UNCHOSEN
    return models.profile(models.default) or ModelChoice(models.default)
