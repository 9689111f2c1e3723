"""How groups are found: a tape of operators, labels that move and are tied, classes, widths, proof."""
