"""The notebook of examples/ runs from its first cell to its last, in a kernel of its own."""

from pathlib import Path

import pytest

pytest.importorskip("nbformat", reason="nbformat is missing (pip install nbclient ipykernel)")
pytest.importorskip("nbclient", reason="nbclient is missing (pip install nbclient ipykernel)")
pytest.importorskip("ipykernel", reason="ipykernel is missing (pip install nbclient ipykernel)")
import nbformat
from nbclient import NotebookClient

pytestmark = pytest.mark.pages
NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_steps.ipynb"


def test_the_notebook_runs(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # none are kept
    client = NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}})
    done = client.execute()
    outputs = [output for cell in done.cells for output in cell.get("outputs", ())]
    texts = "".join(output.get("text", "") for output in outputs)
    assert "97.77% of 448 digits are right" in texts and "16x16: 2," in texts
    assert any("text/html" in output.get("data", {}) for output in outputs)
