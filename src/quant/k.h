// Inside src/quant: the packed 6-bit scales and minima of Q4_K and Q5_K.
#ifndef PUMICE_QUANT_K_H
#define PUMICE_QUANT_K_H

#include <stdint.h>

// 12 bytes to 8 scales and 8 minima of 6 bits: bytes 0-3 and 4-7 hold numbers 0-3 and, in their top
// two bits, the top bits of numbers 4-7; bytes 8-11 hold the low four bits of those.
void k_scale_min(const uint8_t *packed, uint8_t scale[8], uint8_t min[8]);
void k_pack_scale_min(const uint8_t scale[8], const uint8_t min[8], uint8_t *packed);

#endif
