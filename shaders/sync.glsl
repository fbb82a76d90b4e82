// sync(): what a workgroup wrote to shared memory is seen by all of it. Variants ONE_SUBGROUP have
// workgroups of one subgroup, where that costs a driver on a processor nothing; a barrier of the
// workgroup makes it keep every variable in memory.
#ifndef PUMICE_SYNC_GLSL
#define PUMICE_SYNC_GLSL

void sync()
{
#ifdef ONE_SUBGROUP
    subgroupBarrier();
#else
    barrier();
#endif
}

#endif
