"""GPUs as nvidia-smi lists them."""

from __future__ import annotations

from appliance.engine.gpus import parse_nvidia_smi


def test_each_line_of_nvidia_smi_is_one_gpu_with_bytes() -> None:
    gpus = parse_nvidia_smi("NVIDIA H200, 143771, 143200\nNVIDIA L4, 23034, 22565\n")

    assert [(gpu.name, gpu.total_bytes, gpu.backend) for gpu in gpus] == [
        ("NVIDIA H200", 143771 << 20, "cuda"),
        ("NVIDIA L4", 23034 << 20, "cuda"),
    ]
    assert gpus[1].free_bytes == 22565 << 20


def test_figures_the_driver_hides_are_not_known_rather_than_wrong() -> None:
    (gpu,) = parse_nvidia_smi("NVIDIA GB10, [N/A], [N/A]\n")

    assert (gpu.total_bytes, gpu.free_bytes) == (0, 0)


def test_a_comma_in_a_name_stays_in_the_name() -> None:
    (gpu,) = parse_nvidia_smi("NVIDIA A100, 80GB, 81920, 81000\n")

    assert gpu.name == "NVIDIA A100, 80GB"


def test_what_is_no_list_of_gpus_gives_none() -> None:
    assert parse_nvidia_smi("No devices were found\n") == ()
    assert parse_nvidia_smi("") == ()
