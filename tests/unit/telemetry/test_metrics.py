"""Metrics as Prometheus reads them."""

from prometheus_client.parser import text_string_to_metric_families

from appliance.core.errors import Failure
from appliance.core.events import Completed, Failed, ModelIdentity
from appliance.core.usage import Timings, Usage
from appliance.telemetry import Metrics, RequestLabels
from appliance.telemetry.metrics import MOST_SERIES

WHO = RequestLabels(provider="scripted", model="tiny")


def samples(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Every sample by its name and the values of its labels."""
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.render())
        for sample in family.samples
    }


def test_an_ending_counts_tokens_outcome_and_times() -> None:
    metrics = Metrics()
    usage = Usage(input_tokens=30, cached_tokens=20, output_tokens=11)
    timings = Timings(ttft_s=0.2, total_s=1.2)

    metrics.observe_ending(
        WHO,
        Completed(
            finish_reason="stop",
            usage=usage,
            timings=timings,
            model=ModelIdentity(provider="scripted", name="tiny"),
        ),
    )
    metrics.observe_ending(WHO, Failed(failure=Failure(kind="timeout", message="")))

    found = samples(metrics)
    assert found["appliance_requests_total", "tiny stop scripted"] == 1
    assert found["appliance_requests_total", "tiny timeout scripted"] == 1
    assert found["appliance_input_tokens_total", "tiny scripted"] == 30
    assert found["appliance_cached_tokens_total", "tiny scripted"] == 20
    assert found["appliance_output_tokens_total", "tiny scripted"] == 11
    assert found["appliance_ttft_seconds_bucket", "0.1 tiny scripted"] == 0
    assert found["appliance_ttft_seconds_bucket", "0.25 tiny scripted"] == 1
    assert found["appliance_ttft_seconds_count", "tiny scripted"] == 1
    assert abs(found["appliance_tpot_seconds_sum", "tiny scripted"] - 0.1) < 1e-9


def test_bucket_bounds_belong_to_their_bucket_and_the_last_one_holds_all() -> None:
    metrics = Metrics()

    for value_s in (0.1, 0.100001, 1e6):
        metrics.queue_wait.observe("a", "b", value_s=value_s)

    found = samples(metrics)
    assert found["appliance_queue_wait_seconds_bucket", "0.1 b a"] == 1
    assert found["appliance_queue_wait_seconds_bucket", "0.25 b a"] == 2
    assert found["appliance_queue_wait_seconds_bucket", "+Inf b a"] == 3


def test_gauges_rise_and_fall() -> None:
    metrics = Metrics()

    metrics.queue_depth.set(value=4)
    metrics.running.add(amount=2)
    metrics.running.add(amount=-1)

    found = samples(metrics)
    assert found["appliance_queue_depth", ""] == 4
    assert found["appliance_requests_running", ""] == 1


def test_names_a_caller_makes_up_do_not_make_series_without_bound() -> None:
    metrics = Metrics()

    for number in range(MOST_SERIES + 50):
        metrics.output_tokens.add("p", f"made-up-{number}")

    series = [labels for name, labels in samples(metrics) if name == "appliance_output_tokens_total"]
    assert len(series) == MOST_SERIES + 1
    assert samples(metrics)["appliance_output_tokens_total", "other other"] == 50


def test_a_label_with_quotes_and_line_breaks_stays_one_label() -> None:
    metrics = Metrics()

    metrics.retries.add("p", 'a "b"\nc\\', "timeout")

    assert samples(metrics)["appliance_retries_total", 'timeout a "b"\nc\\ p'] == 1
