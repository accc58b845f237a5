"""What all tests share: hypothesis runs the same examples every time.

Owns the hypothesis profile. Never holds fixtures of one package: those live beside its tests.
"""

from hypothesis import settings

pytest_plugins = ["kubesched.pytest_plugin"]

# A red test must be red for everybody: examples come from the test's name, not from chance.
# No deadline, because the cores are shared and pytest-timeout bounds a test that hangs.
settings.register_profile("kubesched", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("kubesched")
