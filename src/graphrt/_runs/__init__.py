"""Floor 6, private: opening and closing one run, the arguments of the verbs, and what they give back."""
