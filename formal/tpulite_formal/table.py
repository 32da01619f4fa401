"""All proofs."""

from tpulite_formal import (
    array,
    buffer,
    dispatcher,
    dma,
    element,
    fetch,
    fetch_order,
    fifo,
    master,
    matrix,
    registers,
    requantizer,
    run,
    splitter,
    tokens,
    vectors,
)
from tpulite_formal.proofs import Proof

__all__ = ["PROOFS"]

PROOFS: list[Proof] = [
    *fifo.PROOFS,
    *tokens.PROOFS,
    *registers.PROOFS,
    *master.PROOFS,
    *fetch.PROOFS,
    *fetch_order.PROOFS,
    *dispatcher.PROOFS,
    *run.PROOFS,
    *buffer.PROOFS,
    *splitter.PROOFS,
    *dma.PROOFS,
    *element.PROOFS,
    *array.PROOFS,
    *matrix.PROOFS,
    *requantizer.PROOFS,
    *vectors.PROOFS,
]
