"""Pure algorithms of DivOPD and STRIDE: arrays in, values out."""
