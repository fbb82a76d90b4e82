// A team of threads that run one function together, with barriers inside. The caller's thread is
// member 0; the others wait between runs: a short while busily, then asleep.
#ifndef PUMICE_EXEC_CPU_TEAM_H
#define PUMICE_EXEC_CPU_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct team team;

pm_status team_create(int n_threads, team **out);
void team_destroy(team *t); // accepts NULL
int team_size(const team *t);

// Every member calls run(arg, member); returns when all have returned.
void team_run(team *t, void (*run)(void *arg, int member), void *arg);

// Inside a run. Work is handed out in order: [*begin, *end) are up to `grain` items of n that no
// other member has; false when none are left. The count starts anew after each barrier, and no
// member may be in two kinds of work between two barriers.
bool team_next(team *t, uint32_t n, uint32_t grain, uint32_t *begin, uint32_t *end);
// Returns when every member is here; what they wrote before is visible after.
void team_barrier(team *t);

#endif
