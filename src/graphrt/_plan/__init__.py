"""Floor 1: what may happen. Frozen tables, how they are read off user classes, and the checks of compile().

User code is looked at here and never run, except for defaults of fields.
"""
