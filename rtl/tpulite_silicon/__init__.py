"""How long the paths of the chip are, and how large it is: in gates, standard cells, an FPGA."""
