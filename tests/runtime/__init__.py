"""How runs behave, rule by rule (docs/reference/rules.md), by the public face of graphrt alone."""
