/* A lazy pool of threads, scratch memory that is used again, and the choice of CPU. */
#include "cw.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- scratch: a stack of chunks; reset keeps the largest, so a steady state allocates nothing ----------------------- */

typedef struct chunk { struct chunk *older; size_t room, used; } chunk;
#define CHUNK_HEAD 64
struct cw_scratch { cw_scratch *next; chunk *top; };

static pthread_mutex_t scratch_lock = PTHREAD_MUTEX_INITIALIZER;
static cw_scratch *idle;

cw_scratch *cw_scratch_borrow(void)
{
    pthread_mutex_lock(&scratch_lock);
    cw_scratch *s = idle;
    if (s) idle = s->next;
    pthread_mutex_unlock(&scratch_lock);
    return s ? s : calloc(1, sizeof *s);
}

#define KEEP ((size_t)64 << 20) /* a scratch that grew past this for one odd frame gives the memory back */

void cw_scratch_reset(cw_scratch *s)
{
    if (!s->top) return;
    size_t total = 0;
    for (chunk *c = s->top; c; c = c->older) total += c->room;
    if (s->top->older || total > KEEP) { /* join: next time one chunk does for all */
        for (chunk *c = s->top, *o; c; c = o) o = c->older, free(c);
        s->top = NULL;
        if (total <= KEEP) {
            chunk *c = aligned_alloc(64, CHUNK_HEAD + total);
            if (c) c->older = NULL, c->room = total, s->top = c;
        }
    }
    if (s->top) s->top->used = 0;
}

void cw_scratch_return(cw_scratch *s)
{
    cw_scratch_reset(s);
    pthread_mutex_lock(&scratch_lock);
    s->next = idle;
    idle = s;
    pthread_mutex_unlock(&scratch_lock);
}

void *cw_scratch_take(cw_scratch *s, size_t n)
{
    if (n > SIZE_MAX / 4) return NULL;
    n = (n + 63) & ~(size_t)63;
    if (!s->top || n > s->top->room - s->top->used) {
        size_t room = CW_MAX(n, (size_t)1 << 20);
        chunk *c = aligned_alloc(64, CHUNK_HEAD + room);
        if (!c) return NULL;
        c->older = s->top;
        c->room = room;
        c->used = 0;
        s->top = c;
    }
    void *p = (u8 *)s->top + CHUNK_HEAD + s->top->used;
    s->top->used += n;
    return p;
}

/* ---- the pool ------------------------------------------------------------------------------------------------------------ */

typedef struct job {
    struct job *next;
    void (*work)(void *, u64);
    void *ctx;
    u64 n;
    atomic_ullong claimed;
    int helpers_wanted, helpers_in; /* under the lock */
} job;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_there = PTHREAD_COND_INITIALIZER, helper_left = PTHREAD_COND_INITIALIZER;
static job *jobs;
static int pool_size, pool_idle;

/* After fork only the forking thread exists: locks may be held by threads that are gone, and so is the pool. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&pool_lock, NULL);
    pthread_cond_init(&work_there, NULL);
    pthread_cond_init(&helper_left, NULL);
    pthread_mutex_init(&scratch_lock, NULL);
    jobs = NULL;
    pool_size = pool_idle = 0;
    idle = NULL; /* another thread may have been changing this list: leave it */
}

void cw_threads_init(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

static void drain(job *j)
{
    for (;;) {
        u64 i = atomic_fetch_add_explicit(&j->claimed, 1, memory_order_relaxed);
        if (i >= j->n) return;
        j->work(j->ctx, i);
    }
}

static void *helper(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool_lock);
    for (;;) {
        job *j = jobs;
        while (j && j->helpers_wanted == 0) j = j->next;
        if (!j) {
            pool_idle++;
            pthread_cond_wait(&work_there, &pool_lock);
            pool_idle--;
            continue;
        }
        j->helpers_wanted--;
        j->helpers_in++;
        pthread_mutex_unlock(&pool_lock);
        drain(j);
        pthread_mutex_lock(&pool_lock);
        if (--j->helpers_in == 0) pthread_cond_broadcast(&helper_left);
    }
    return NULL;
}

#define MOST_THREADS 256

void cw_parallel(u64 n, int threads, void (*work)(void *, u64), void *ctx)
{
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > 0 && (u64)threads > n) threads = (int)n;
    if (threads <= 1) {
        for (u64 i = 0; i < n; i++) work(ctx, i);
        return;
    }
    job j = {.work = work, .ctx = ctx, .n = n, .helpers_wanted = threads - 1};
    atomic_init(&j.claimed, 0);
    pthread_mutex_lock(&pool_lock);
    j.next = jobs;
    jobs = &j;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    while (pool_size < MOST_THREADS && pool_idle < threads - 1 && pool_size < threads - 1) {
        pthread_t id;
        if (pthread_create(&id, &detached, helper, NULL)) break; /* fewer helpers: slower, not wrong */
        pool_size++;
    }
    pthread_attr_destroy(&detached);
    pthread_cond_broadcast(&work_there);
    pthread_mutex_unlock(&pool_lock);

    drain(&j);

    pthread_mutex_lock(&pool_lock);
    job **at = &jobs;
    while (*at != &j) at = &(*at)->next;
    *at = j.next;
    while (j.helpers_in) pthread_cond_wait(&helper_left, &pool_lock);
    pthread_mutex_unlock(&pool_lock);
}

int cw_fast_cpu(void)
{
#if defined(__x86_64__)
    static atomic_int known = -1;
    int k = atomic_load_explicit(&known, memory_order_relaxed);
    if (k < 0) {
        k = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
            __builtin_cpu_supports("fma") && !getenv("CORDWOOD_PORTABLE");
        atomic_store_explicit(&known, k, memory_order_relaxed);
    }
    return k;
#else
    return 0;
#endif
}
