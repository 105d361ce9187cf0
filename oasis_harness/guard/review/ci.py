"""Whether this process runs in CI, where snapshots are compared and never written: a person records and signs."""

import os

__all__ = ["CI_VARIABLES", "is_ci"]

CI_VARIABLES = (
    *("CI", "BUILD_NUMBER"),  # what pytest looks at
    *("APPVEYOR", "BITBUCKET_BUILD_NUMBER", "BUILDKITE", "CIRCLECI", "CIRRUS_CI", "CODEBUILD_BUILD_ID"),
    *("CONTINUOUS_INTEGRATION", "DRONE", "GITHUB_ACTIONS", "GITLAB_CI", "HUDSON_URL", "JENKINS_URL"),
    *("SEMAPHORE", "TEAMCITY_VERSION", "TF_BUILD", "TRAVIS", "WOODPECKER"),
)
"""Any of these, set and not to a no, says that this is CI: what pytest knows, and services that may set neither."""
_NO = ("", "0", "false", "no", "off")


def is_ci() -> bool:
    """Say whether one of `CI_VARIABLES` is set, and not to a no."""
    return any(os.environ.get(name, "").strip().lower() not in _NO for name in CI_VARIABLES)
