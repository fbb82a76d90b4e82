// The codebooks of the IQ formats, for their decoders and for the repacking of the CPU executor;
// iq_tables.c says how they are packed.
#ifndef PUMICE_QUANT_IQ_TABLES_H
#define PUMICE_QUANT_IQ_TABLES_H

#include <stdint.h>

extern const uint16_t iq1_grid[2048];
extern const uint16_t iq2_xxs_grid[256];
extern const uint16_t iq2_xs_grid[512];
extern const uint16_t iq2_s_grid[1024];
extern const uint16_t iq3_xxs_grid[256];
extern const uint16_t iq3_s_grid[512];

// Signs of eight values from seven bits: the eighth makes the number of minus signs even.
static inline unsigned iq_even_signs(unsigned seven)
{
    unsigned parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return seven | (parity & 1) << 7;
}

#endif
