"""The pytest plugin: fixtures and hooks, thin over `review`, `requests` and `snapshots`.

pytest enters by `plugin.pytest_plugin`, the module its entry point names; nothing else imports from here.
"""
