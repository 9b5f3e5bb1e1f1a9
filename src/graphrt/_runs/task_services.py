"""What the tasks of a run share, made from the configuration of its runtime.

Called when a run is opened, and for one task that a worker of a queue runs (`remote_tasks`).
"""

from __future__ import annotations

from graphrt._agents.run_agents import RunAgents
from graphrt._ambient import surroundings
from graphrt._drivers.run_services import RunServices
from graphrt._engine.engine import Engine
from graphrt._flows.effects import Control
from graphrt._runs.run_config import RunConfig
from graphrt.stores.ids import shared_id


def services_of(config: RunConfig, engine: Engine, control: Control, seed: int | None) -> RunServices:
    """Return what the tasks of a run share: `ctx.deps`, harness, clock, seed, budget and the like. Without a journal.

    The caller adds what writes entries and stages outcomes, since a run and a task of a queue do this differently.

    Args:
        engine: The engine of the top graph.
        control: Switches by which the run is asked to halt or to hand over.
        seed: Seed of the run if the runtime has none; None draws one at first need.
    """
    services = RunServices(
        control,
        thread=engine.thread,
        deps=config.deps,
        harness=config.harness,
        clock=config.clock,
        make_run_id=config.ids,
        seed=config.seed if config.seed is not None else seed,
        loop_source=config.threads.loop_source,
    )
    # `root`: the engine of the top graph, from any nested one. `pool_source` and `loop_source`: the worker threads that
    # all runs of the runtime share, started at first need.
    services.budget, services.root, services.pool_source = config.budget, engine, config.threads.pool
    # `doubles` replace models of agents and tools, by name. `recorded` answers from a log, when a run is executed again.
    services.doubles, services.recorded = config.doubles, config.recorded
    if engine.thread is not None:  # the id with its tenant, by which the shared store knows the thread
        services.known_as = shared_id(config.store, engine.thread)
        services.memory, services.embed = config.store, config.embed
    services.streams = config.stream_models
    services.agents = RunAgents()  # makes what agents and budgets need in a task
    # A run inside a run waits as the outer one does, unless its runtime has a sleep= (decision 0040).
    services.sleep = config.sleep if config.sleep is not None else surroundings().sleep
    return services
