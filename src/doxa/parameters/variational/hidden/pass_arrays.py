"""What compiled code knows of a pass over cases: flat arrays, which `pass_layout` beside this makes."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Case", "Shape", "State"]

_Floats: TypeAlias = NDArray[np.float64]
_Index: TypeAlias = NDArray[np.intp]


class Shape(NamedTuple):
    """Factors and blocks of a component, in flat arrays; factors are its families, then its learned roots."""

    family: _Index  # (n_families,), which of the state's
    root: _Index  # (n_roots,), likewise
    entry_at: _Index  # (n_factors + 1,), where each factor's entries begin
    unit: _Floats  # (n_family_entries, most), h = unit @ u
    n_units: _Index  # (n_families,), k + 1
    share_block: _Index  # (n_shares,), the block that has some of a factor's cells; shares stand factor by factor
    share_at: _Index  # (n_shares + 1,), where the marginals of each begin
    factor_share: _Index  # (n_factors + 1,), where each factor's shares begin
    share_entry_at: _Index  # (n_shares,), where its stretch of ``share_entry`` begins
    share_entry: _Index  # for each entry of its factor, the marginal it needs
    share_cell_at: _Index  # (n_shares,), where its stretch of ``share_cell`` begins
    share_cell: _Index  # for each configuration of its block, the marginal it belongs to
    block_at: _Index  # (n_blocks + 1,), where each block's probabilities begin in q
    block_share: _Index  # shares, block by block
    block_share_at: _Index  # (n_blocks + 1,)
    share_factor: _Index  # (n_shares,)


class Case(NamedTuple):
    """What is observed around a component."""

    rows: _Floats  # flat: for each family (k + 1, 1 + d), extended rows of u
    row_at: _Index  # (n_families,)
    sign: _Floats  # (n_family_entries,), of the child
    configuration: _Index  # (n_family_entries,), which of the state's
    log_given: _Floats  # (n_q,), log probability of given roots


class State(NamedTuple):
    """Gaussians and Betas of all families and learned roots, in whitened coordinates; changed in place."""

    dimension: _Index  # (families,)
    mean_at: _Index  # (families,)
    covariance_at: _Index  # (families,)
    mean: _Floats  # flat
    covariance: _Floats  # flat
    beta: _Floats  # (roots, 2): cases of 0 and of 1, with the prior's
    weight: _Floats  # (configurations,), of all families: what each added to the precision
    pull: _Floats  # (configurations,), and to precision times mean
