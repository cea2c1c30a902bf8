"""A whole eval with a real judge server, `transformers serve`, over loopback. Its weights are random: what it says is
rubbish, and no number may come from that."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from yanami_dataset.errors import ModelError
from yanami_metric.api import Judging, evaluate, unscored
from yanami_metric.data import Selection, open_data
from yanami_metric.judges import open_judge

MADE = "from pathlib import Path; import sys; from tests.tiny_transformers import llava; llava(Path(sys.argv[1]))"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Spec of a judge behind a server that is only just starting."""
    folder = tmp_path_factory.mktemp("serve")
    model = folder / "tiny"
    subprocess.run([sys.executable, "-c", MADE, str(model)], check=True, cwd=Path(__file__).parent.parent, stderr=-3)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("transformers"), "serve", model, "--host", "127.0.0.1"]
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [*map(str, command), "--port", str(port), "--device", "cpu"], stdout=log, stderr=log, env=os.environ
    )
    yield f"openai:{model}@http://127.0.0.1:{port}/v1"
    process.terminate()
    process.wait(timeout=20)
    log.close()


@pytest.mark.slow
def test_a_real_server_that_talks_rubbish_gives_no_number(served, tmp_path):
    how = Judging(options={"max_tokens": 24, "load.attempts": 1}, wait=120, local_only=True, concurrency=2)
    data = open_data("mini", Selection(limit=4))
    done = evaluate(data, "baseline:copy-last", judges=[served], answer_judge=served, judging=how, out=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/verdicts.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} >= {"checks", "quality"}
    assert {item["status"] for line in lines for item in line["items"]} == {"unparsed"}
    for line in lines:
        assert len(line["raw"]) == 2 and line["tokens"][0] > 100 and line["tokens"][1] > 0  # the repeat request too
    assert set(unscored(done.scores[0])) == {"unparsed"}
    scores = done.scores[0]["histories"]["gt"]["scenarios"]
    assert {entry["sc"]["value"] for entry in scores.values()} == {None}
    assert done.reports[0].is_file()
    wrong = served.replace("/tiny@", "/other@")
    with pytest.raises(ModelError, match="no model"):
        open_judge(wrong).check()
