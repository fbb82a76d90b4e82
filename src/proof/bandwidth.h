// How fast the processor's memory can be read: the roof over tokens a second.
#ifndef PUMICE_PROOF_BANDWIDTH_H
#define PUMICE_PROOF_BANDWIDTH_H

#include "base/error.h"

// Bytes a second that n_threads read together from memory far larger than the caches; the best of
// several passes, about a second in all.
pm_status bandwidth_measure(int n_threads, double *bytes_per_second);

#endif
