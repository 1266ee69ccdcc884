from typing import Any

from mlflow.entities import Feedback
from mlflow.genai.scorers import scorer


@scorer(name="same answer")
def same(inputs: dict[str, Any], outputs: Any, expectations: dict[str, Any]) -> Feedback:
    expected = expectations.get("expected_response", expectations)
    if isinstance(outputs, str):
        right = outputs.rsplit("A:")[-1].strip() == expected.rsplit("A:")[-1].strip()
    else:
        right = outputs == expected
    return Feedback(value=right, rationale=f"asked in {len(str(inputs))} characters")
