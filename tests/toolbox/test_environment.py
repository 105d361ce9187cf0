"""What of the environment reaches a command."""

from oasis_harness.toolbox.environment import PASSED_NAMES, passed_environment


def test_only_listed_names_and_locales_pass() -> None:
    usual = dict.fromkeys(PASSED_NAMES, "x") | {"LC_ALL": "C", "LC_CTYPE": "de_DE.UTF-8"}
    secrets = {
        "OPENAI_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
        "SSH_AUTH_SOCK": "/s",
        "PYTHONPATH": "/p",
        "path": "x",
    }
    assert passed_environment(usual | secrets) == usual


def test_a_name_that_is_asked_for_passes_where_it_is_set() -> None:
    assert passed_environment({"TOKEN": "t", "OTHER": "o"}, ["TOKEN", "MISSING"]) == {"TOKEN": "t"}
