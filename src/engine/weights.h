// A model's weights on the executors that run it: one part per segment of the layers. Loaded once,
// shared by all sessions, immutable.
#ifndef PUMICE_ENGINE_WEIGHTS_H
#define PUMICE_ENGINE_WEIGHTS_H

#include "exec/exec.h"
#include "model/model.h"

enum { WEIGHTS_MAX_PARTS = 4 };

// Layers [first_layer, end_layer) on one executor. The first part also has what comes before the
// layers, the last one what comes behind them.
typedef struct weights_part {
    const exec_kind *kind;
    exec_params params;
    uint32_t first_layer, end_layer;
    exec_weights *loaded; // filled by weights_load
} weights_part;

typedef struct weights {
    const model *m;
    exec_source source;
    weights_part parts[WEIGHTS_MAX_PARTS];
    uint32_t n_parts;
} weights;

// The parts follow each other and cover all layers: asserted. The model outlives the weights.
pm_status weights_load(const model *m, const weights_part *parts, uint32_t n_parts, weights **out);
void weights_settle(weights *w); // see exec_kind
void weights_unload(weights *w); // accepts NULL
// What users should see of the devices (exec.h); opening sessions can add to it. NULL past the
// last.
const char *weights_warning(const weights *w, size_t index);

#endif
