// How fast the processor's memory can be read: the roof over tokens a second.
#ifndef PUMICE_PROOF_BANDWIDTH_H
#define PUMICE_PROOF_BANDWIDTH_H

#include "engine/weights.h"

// Bytes a second that n_threads read together from memory far larger than the caches; the best of
// several passes, about a second in all.
pm_status bandwidth_measure(int n_threads, double *bytes_per_second);

// The same of the device that these weights are on; of the first one that has memory of its own
// where several share them, since it runs as many layers as it holds.
pm_status bandwidth_measure_device(const weights *w, int n_threads, double *bytes_per_second);

#endif
