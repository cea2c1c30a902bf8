"""command:<argv>: a model in another environment, run by command_program.py, which knows nothing of yanami.

    python examples/command_model.py

The folder "elsewhere" stands for another repository with its own Python and its own torch: it holds the program and the
helper, a single file that is copied there. The same on the command line:

    yanami eval --model "command:/elsewhere/.venv/bin/python /elsewhere/command_program.py" --set answer="red circle"
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from yanami_metric.api import judge, rollout, score
from yanami_metric.mini import mini_folder
from yanami_metric.models import serve
from yanami_metric.models.command import CommandModel

PROGRAM = Path(__file__).with_name("command_program.py")


def main():
    with TemporaryDirectory() as elsewhere:
        for file in (PROGRAM, serve.__file__):
            shutil.copy(file, elsewhere)
        model = CommandModel([sys.executable, f"{elsewhere}/{PROGRAM.name}"], call={"answer": "red circle"})
        print(model.identity)
        run = rollout(mini_folder(dialogues=8), model, history=("gt", "self"))
        model.close()
    for history, scores in score(judge(run))["histories"].items():
        print(history, {name: round(scores[name]["value"], 1) for name in ("overall", "dsu", "sc", "vq")})


if __name__ == "__main__":
    main()
