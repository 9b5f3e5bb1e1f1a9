"""How answers of providers are read below litellm: corrected where litellm would misread them, and facts noted."""
