/* Stands for HAMi-core's libvgpu.so: it has the names by which Rootport knows HAMi-core, and does nothing with them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

const char *const hami_names[] = {
    "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT", "CUDA_DEVICE_MEMORY_SHARED_CACHE",
};

int cuMemAlloc_v2(void **pointer, size_t size) { return pointer != NULL && size > 0 ? 2 : 0; }

/* Programs find CUDA's functions by it; HAMi-core's own answers with HAMi-core's. */
void *dlsym(void *restrict handle, const char *restrict name) {
    static void *(*real)(void *, const char *);
    if (real == NULL)
        real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (real == NULL)
        real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real != NULL ? real(handle, name) : NULL;
}

#ifdef NEEDS_CUDA
extern int cuInit(unsigned int flags);
int needs_cuda(void) { return cuInit(0); }
#endif

#ifdef LAZY
/* glibc had this one for itself and has it no more; HAMi-core calls it only where nothing else helps. */
extern void *gone_from_glibc(void);
void *last_resort(void) { return gone_from_glibc(); }
#endif

__attribute__((constructor)) static void start(void) {
#ifdef HANGS
    for (;;)
        pause();
#endif
#if defined(FORKS) || defined(ESCAPES)
    /* One child, which ends by itself in any case. */
    if (fork() == 0) {
        setsid();
        sleep(20);
        _exit(0);
    }
#endif
#ifdef ESCAPES
    setsid();
    prctl(PR_SET_PDEATHSIG, 0);
    signal(SIGTERM, SIG_IGN);
    sleep(20);
    _exit(0);
#endif
#ifdef CRASHES
    abort();
#endif
#ifdef EATS_MEMORY
    for (;;)
        if (malloc(64 << 20) == NULL)
            abort();
#endif
#ifdef TELLS_USER
    fprintf(stderr, "user %u, group %u\n", geteuid(), getegid());
    _exit(3);
#endif
#ifdef EXITS
    fprintf(stderr, "libvgpu: no licence\n");
    _exit(3);
#endif
}
