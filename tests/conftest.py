"""What holds for all tests: no time fails one, and Ctrl-C is a signal like any other."""

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("calm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("calm")

# A shell starts what it puts into the background deaf to Ctrl-C, and whatever a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
