"""Gives the metrics to the Prometheus library, which writes their text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from appliance.telemetry.metrics import Histogram, Metrics


class MetricsCollector(Collector):
    """Yields the families as they stand now."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        for counter in self._metrics.counters():
            family = CounterMetricFamily(counter.name, counter.text, labels=counter.label_names)
            for labels, value in counter.values().items():
                family.add_metric(labels, value)
            yield family
        for gauge in self._metrics.gauges():
            gauges = GaugeMetricFamily(gauge.name, gauge.text, labels=gauge.label_names)
            for labels, value in gauge.values().items():
                gauges.add_metric(labels, value)
            yield gauges
        for histogram in self._metrics.histograms():
            yield _histogram_family(histogram)


def _histogram_family(histogram: Histogram) -> HistogramMetricFamily:
    family = HistogramMetricFamily(histogram.name, histogram.text, labels=histogram.label_names)
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for labels, (counts, total) in histogram.values().items():
        family.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
    return family
