"""The answer of a trained network as an ONNX graph: points in, class and probabilities out, without NeSi."""

from __future__ import annotations

from typing import Any

import numpy as np

from data_tools.signed import InputPairs
from nesi.errors import NesiError
from nesi.posteriors import class_given_unit

_OPSET, _FORMAT = 17, 8  # of 2022, so that older runtimes read it, too


def posterior_graph(
    W: np.ndarray,
    R: np.ndarray,
    A: float,
    recurrent: bool,
    relative_prior: np.ndarray,
    committee: int,
    classes: np.ndarray,
    pairs: InputPairs | None = None,
) -> bytes:
    """T1.3 to T1.6 without labels, for dense points in the type of W; `relative_prior` is K p(k).

    A point without content gets the prior. The mean of log W over units is taken away from all of them, which changes
    no posterior: drives of some thousands would leave float32 few digits for their differences.
    """
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise NesiError("ONNX needs the package onnx, which is not installed: pip install 'nesi[onnx]'.") from None
    dtype, (units, inputs), n_classes = W.dtype, W.shape, len(R)
    number = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}[dtype.name]
    prior = relative_prior / n_classes
    log_W = np.log(W.astype(np.float64))
    with np.errstate(divide="ignore"):
        top_down = np.log(prior @ R.astype(np.float64)) if recurrent else np.zeros(units)
    text = classes.dtype.kind not in "iub"
    names = np.array([str(name) for name in classes], dtype=object) if text else classes.astype(np.int64)
    constants: dict[str, Any] = {
        "A_minus_D": np.array(A - inputs),
        "zero": np.array(0.0),
        "one": np.ones((), dtype),
        "one_in_float64": np.array(1.0),
        "log_W": (log_W - log_W.mean(axis=0)).T.astype(dtype),
        "top_down": top_down[None, :].astype(dtype),
        "by_member": np.array([-1, committee, units // committee]),
        "all_units": np.array([-1, units]),
        "class_given_unit": (class_given_unit(R, relative_prior).T / committee).astype(dtype),
        "prior": prior[None, :].astype(dtype),
        "inputs_axis": np.array([1]),
        "classes": names,
    }
    node = helper.make_node
    given = "points" if pairs is None else "inputs"
    first: list[Any] = []
    if pairs is not None and pairs.low is not None and pairs.high is not None:
        low, high = np.array(pairs.low), np.array(pairs.high)
        constants |= {"low": low[None, :], "half_range": (high / 2 - low / 2)[None, :], "half": np.array(0.5)}
        first = [
            node("Cast", ["points"], ["points_in_float64"], to=TensorProto.DOUBLE),
            node("Sub", ["points_in_float64", "low"], ["distance"]),
            node("Mul", ["distance", "half"], ["half_distance"]),
            node("Div", ["half_distance", "half_range"], ["place"]),
            node("Clip", ["place", "zero", "one_in_float64"], ["above"]),
            node("Sub", ["one_in_float64", "above"], ["below"]),
            node("Concat", ["above", "below"], ["inputs_in_float64"], axis=1),
            node("Cast", ["inputs_in_float64"], ["inputs"], to=number),
        ]
    elif pairs is not None:
        first = [
            node("Relu", ["points"], ["positive"]),
            node("Neg", ["points"], ["opposite"]),
            node("Relu", ["opposite"], ["negative"]),
            node("Concat", ["positive", "negative"], ["inputs"], axis=1),
        ]
    nodes = [
        *first,
        node("Cast", [given], ["in_float64"], to=TensorProto.DOUBLE),
        node("ReduceSum", ["in_float64", "inputs_axis"], ["total"], keepdims=1),
        node("Greater", ["total", "zero"], ["has_content"]),
        node("Where", ["has_content", "total", "one_in_float64"], ["divisor"]),
        node("Div", ["A_minus_D", "divisor"], ["scale_in_float64"]),
        node("Cast", ["scale_in_float64"], ["scale"], to=number),
        node("Mul", [given, "scale"], ["without_background"]),
        node("Add", ["without_background", "one"], ["y"]),
        node("MatMul", ["y", "log_W"], ["bottom_up"]),
        node("Add", ["bottom_up", "top_down"], ["drive"]),
        node("Reshape", ["drive", "by_member"], ["drive_by_member"]),
        node("Softmax", ["drive_by_member"], ["s_by_member"], axis=-1),
        node("Reshape", ["s_by_member", "all_units"], ["s"]),
        node("MatMul", ["s", "class_given_unit"], ["t"]),
        node("Where", ["has_content", "t", "prior"], ["probabilities"]),
        node("ArgMax", ["probabilities"], ["best"], axis=1, keepdims=0),
        node("Gather", ["classes", "best"], ["label"]),
    ]
    graph = helper.make_graph(
        nodes,
        "NeSi",
        [helper.make_tensor_value_info("points", number, ["N", inputs if pairs is None else inputs // 2])],
        [
            helper.make_tensor_value_info("label", TensorProto.STRING if text else TensorProto.INT64, ["N"]),
            helper.make_tensor_value_info("probabilities", number, ["N", n_classes]),
        ],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="nesi")
    model.ir_version = _FORMAT
    return bytes(model.SerializeToString())
