"""What people read: accounts of cycles, comparisons with other machines."""

from tpulite.report.layers import LayerAccount, account_layers, layer_table
from tpulite.report.peers import Peer, peers_of

__all__ = ["LayerAccount", "Peer", "account_layers", "layer_table", "peers_of"]
