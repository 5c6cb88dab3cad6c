"""Term frequency times inverse document frequency, as in the paper and as in the authors' program.

    paper:  idf_w = ln( N / (1 + df_w) ), N and df from the training set, used for both sets
    legacy: idf_w = ln( floor( N / (1 + df_w) ) ), each set with its own N and df

tf is the raw count. Both variants can be negative for words that are in (nearly) every document. As the input must not
be negative, such words get weight 0: they say nothing about the class.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from data_tools.errors import DataError, nearest

VARIANTS = ("paper", "legacy")


def inverse_document_frequency(counts: sparse.csr_matrix, variant: str) -> npt.NDArray[np.float64]:
    """One weight per word, at least 0; a word that never occurs has df = 0 and the largest weight."""
    n_documents = counts.shape[0]
    document_frequency = np.bincount(counts.indices[counts.data != 0], minlength=counts.shape[1])
    ratio = n_documents / (1.0 + document_frequency)
    if variant == "legacy":
        ratio = np.floor(ratio)
    return np.log(np.maximum(ratio, 1.0))


def tf_idf(
    train: sparse.csr_matrix, test: sparse.csr_matrix, variant: str = "paper"
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Both sets weighted, float32 CSR; entries of weight 0 are no longer stored."""
    if variant not in VARIANTS:
        raise DataError(
            f'idf is "{variant}", expected one of {", ".join(VARIANTS)}{nearest(str(variant), VARIANTS)}; correct it.'
        )
    train_idf = inverse_document_frequency(train, variant)
    # The authors' program weights the test set by its own statistics; the paper variant never looks at it.
    test_idf = inverse_document_frequency(test, variant) if variant == "legacy" else train_idf
    return weighted(train, train_idf), weighted(test, test_idf)


def weighted(counts: sparse.csr_matrix, idf: npt.NDArray[np.float64]) -> sparse.csr_matrix:
    """Entries of weight 0 are no longer stored."""
    product = counts.copy()
    product.data = (counts.data * idf[counts.indices]).astype(np.float32)
    product.eliminate_zeros()
    return product
