// Between the files of model/ only.
#ifndef PUMICE_MODEL_INTERNAL_H
#define PUMICE_MODEL_INTERNAL_H

#include "model/model.h"

pm_status model_read_hparams(model *m);     // sizes, scales, RoPE; before there are layers
pm_status model_read_layer_kinds(model *m); // windows, RoPE kind of each layer
pm_status model_bind_tensors(model *m);     // finds and checks every tensor

#endif
