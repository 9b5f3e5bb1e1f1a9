"""A process that drives the support desk and sends its spans to a collector: `URL COLLECTOR VERB`.

With the verb `die`, the process kills itself with SIGKILL while a model writes the draft.
"""

from __future__ import annotations

import os
import signal
import sys

from examples.support_triage.graph import Desk, graph
from examples.support_triage.offline import answer, offline
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from graphrt import Runtime
from graphrt.harness import FunctionModel
from graphrt.otel import Tracing

url, collector, verb = sys.argv[1:]
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(collector)))
tracing = Tracing(tracer_provider=provider)
models = offline()


def die(request):
    tracing.flush()  # committed spans have been sent, like in a longer-lived process
    os.kill(os.getpid(), signal.SIGKILL)
    return answer(request)


if verb == "die":
    models["writer"] = FunctionModel(die)
runtime = Runtime(graph, store=url, deps=Desk(), models=models, sinks=[tracing])
if verb == "die":
    runtime.run({"number": 7, "customer": "ann@example.org", "ticket": "You charged me twice!"}, thread="ticket-7")
ended = (runtime.retry("ticket-7").status, runtime.resume("ticket-7", answer={"do": "send"}).status)
sys.stdout.write("\n".join((*ended, "")))
tracing.flush()
provider.shutdown()
