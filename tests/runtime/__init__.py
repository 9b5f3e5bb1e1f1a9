"""How runs behave, rule by rule (DESIGN section 4), by the public face of graphrt alone."""
