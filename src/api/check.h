// What check and the reproduction of its reports share.
#ifndef PUMICE_API_CHECK_H
#define PUMICE_API_CHECK_H

#include <jansson.h>

#include "api/options.h"
#include "proof/check.h"

json_t *check_op_json(const check_op *op);
// PM_ERROR_CHECK, with what is wrong with an operation's result.
pm_status check_bad_op(const check_op *op);
// Is it an option that a report keeps, because what is switched off decides which kernels run?
bool check_keeps_option(const char *name);

#endif
