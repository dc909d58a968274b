"""Settings: what a user and a project choose once, instead of with every command."""

from pipeline.app.settings.files import Loaded, Places, load_settings
from pipeline.app.settings.values import NOTHING_SET, AgentLimits, Origin, Setting, Settings

__all__ = ["NOTHING_SET", "AgentLimits", "Loaded", "Origin", "Places", "Setting", "Settings", "load_settings"]
