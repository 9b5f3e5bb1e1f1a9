"""Route mutation: small changes of compiled graphs, and whether the tests notice them.

`python -m graphrt.testing.mutate module:graph -- tests` tests the mutants. A mutant is a compiled graph built from
data; no source is read or written.
"""

from graphrt.testing.mutate.mutants import MutantError, mutant
from graphrt.testing.mutate.operators import OPERATORS, Mutation, mutations

__all__ = ["OPERATORS", "MutantError", "Mutation", "mutant", "mutations"]
