"""Real weights, cut and bent: refused in milliseconds with what is wrong."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from time import process_time

import pytest

from appliance.catalog.gguf import read_gguf
from appliance.core.errors import ModelFileError

_CUTS = 50


def test_the_starter_model_cut_at_random_places_is_refused(starter_weights: Path, tmp_path: Path) -> None:
    size = starter_weights.stat().st_size
    cut = tmp_path / "cut.gguf"
    shutil.copyfile(starter_weights, cut)
    chosen = random.Random(7)
    lengths = sorted({chosen.randrange(size) for _ in range(_CUTS)} | {0, 3, 4, 23, 24, 1000}, reverse=True)
    slowest_s = 0.0
    for length in lengths:
        with cut.open("r+b") as stream:
            stream.truncate(length)
        started_s = process_time()
        with pytest.raises(ModelFileError, match=r"truncated|empty|too short"):
            read_gguf(cut)
        slowest_s = max(slowest_s, process_time() - started_s)
    assert slowest_s < 0.5


def test_the_starter_model_itself_is_read(starter_weights: Path) -> None:
    info = read_gguf(starter_weights)
    assert (info.architecture, info.quantisation, info.block_count) == ("llama", "Q4_1", 30)
    assert (info.vocabulary_size, info.parameters) == (49152, 134_515_008)
    assert info.context_length == 8192
    assert info.chat_template.startswith("{%")


@pytest.mark.slow
def test_bent_headers_of_the_starter_model_are_read_or_refused(starter_weights: Path, tmp_path: Path) -> None:
    bent = tmp_path / "bent.gguf"
    shutil.copyfile(starter_weights, bent)
    chosen = random.Random(11)
    refused = 0
    for _ in range(300):
        position = chosen.choice([chosen.randrange(2000), chosen.randrange(1_785_664)])
        with bent.open("r+b") as stream:
            stream.seek(position)
            before = stream.read(4)
            stream.seek(position)
            stream.write(chosen.randbytes(4))
        try:
            read_gguf(bent)
        except ModelFileError:
            refused += 1
        with bent.open("r+b") as stream:
            stream.seek(position)
            stream.write(before)
    assert refused > 50
