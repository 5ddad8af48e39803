"""Documents of results, a function for each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antiphon.view.document import Document


def document_of(result: object) -> Document | None:
    """What people see of a result by itself; None if that is no more than its table."""
    from antiphon.view.documents import (
        collective,
        expected,
        exploration,
        inference,
        jobs,
        limits,
        llm,
        measured,
        network,
        survival,
        varied,
    )

    makers: dict[str, Callable[[Any], Document]] = {
        "AtScale": collective.scaled_document,
        "BesideRun": varied.beside_document,
        "BestPlans": llm.plan_document,
        "Calibration": measured.calibration_document,
        "Comparison": collective.comparison_document,
        "Emulated": measured.emulated_document,
        "EngineAdvice": network.engine_advice_document,
        "Expectation": expected.expectation_document,
        "Exploration": exploration.exploration_document,
        "FlightsRun": jobs.flights_document,
        "Inference": inference.inference_document,
        "Limits": limits.limits_document,
        "Measurement": measured.measurement_document,
        "NocResult": lambda run: network.noc_document([run]),
        "RailsAdvice": network.rails_advice_document,
        "RailsFlights": lambda run: network.rails_flights_document([run]),
        "RailsRun": lambda run: network.rails_document([run]),
        "Replay": jobs.replay_document,
        "StepRun": llm.step_document,
        "Survival": survival.survival_document,
        "Training": lambda training: jobs.training_document([(training, [])], []),
        "TreesAdvice": network.trees_advice_document,
        "Run": collective.run_document,
        "Saturation": network.saturation_document,
        "Tuning": collective.tuning_document,
        "Variations": varied.variations_document,
    }
    maker = makers.get(type(result).__name__)
    return None if maker is None else maker(result)
