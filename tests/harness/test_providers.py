"""Each cell of the page about providers, whole and streamed; and the page itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.providers import FEATURES, PROVIDERS, Provider, cells, page
from tests.harness.wires import WAYS

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "providers.md"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize(
    "provider", PROVIDERS, ids=lambda provider: f"{provider.name}-{provider.api}".replace(" ", "-")
)
def test_feature_works_with_a_provider(provider: Provider, feature: str, way: str) -> None:
    assert FEATURES[feature](provider, way) in (True, None)


@pytest.mark.full
def test_page_equals_the_output_of_the_program() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(list(cells()))
