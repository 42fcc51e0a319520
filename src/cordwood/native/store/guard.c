/* Reading mapped files that may be cut short meanwhile.
 *
 * A page of a mapping behind the end of its file cannot be touched: the kernel sends SIGBUS, which ends the process. Here
 * one copy is made while a jump is set up, and the handler takes it. Only that copy is ever interrupted, so nothing is left half
 * done; and what is checked and decoded afterwards is private memory, which nobody can change between check and use. */
#define _GNU_SOURCE
#include "store.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

/* Initial-exec: the handler must find it without asking the loader, which may allocate. */
static _Thread_local __attribute__((tls_model("initial-exec"))) sigjmp_buf *landing;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;
static volatile sig_atomic_t passing_on;

/* Not of ours: whoever was here before us takes it. We step aside first, and if that one only raises the signal again, as a
 * handler that reports and gives up does, the process ends by it as ever. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    if (passing_on) {
        signal(number, SIG_DFL);
        return;
    }
    passing_on = 1;
    sigaction(number, &before, NULL);
    if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(number);
    passing_on = 0;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    if (landing) siglongjmp(*landing, 1);
    pass_on(number, info, context);
}

void cw_guard_prepare(void)
{
    struct sigaction now;
    if (!sigaction(SIGBUS, NULL, &now) && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error) return;
    pthread_mutex_lock(&lock);
    /* looked at again: another thread may have been faster, and a handler that comes before itself would never end */
    if (!sigaction(SIGBUS, NULL, &now) && !((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error)) {
        struct sigaction ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
        sigemptyset(&ours.sa_mask);
        before = now;
        passing_on = 0; /* one that took the signal may have jumped out of it */
        sigaction(SIGBUS, &ours, NULL);
    }
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void) { pthread_mutex_init(&lock, NULL); }
void cw_guard_init(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

/* `crc`: NULL, or where the copied bytes' CRC-32C goes. */
int cw_guarded_copy(void *to, const void *from, size_t n, u32 *crc, int past_caches)
{
    sigjmp_buf here;
    if (sigsetjmp(here, 0)) { /* the mask is not saved, which would be a system call: SA_NODEFER leaves it as it is */
        landing = NULL;
        return -1;
    }
    landing = &here;
    __asm__ volatile("" ::: "memory"); /* the copy stays between these two */
    if (crc) *crc = cw_copy_crc32c(to, from, n, past_caches);
    else memcpy(to, from, n);
    __asm__ volatile("" ::: "memory");
    landing = NULL;
    return 0;
}

/* Setting up a jump takes longer than copying a small frame: many pieces share one. */
u64 cw_guarded_copies(const cw_piece *pieces, u64 n)
{
    sigjmp_buf here;
    volatile u64 done = 0; /* looked at after a jump */
    if (!sigsetjmp(here, 0)) {
        landing = &here;
        __asm__ volatile("" ::: "memory");
        for (u64 i = 0; i < n; done = ++i) memcpy(pieces[i].to, pieces[i].from, pieces[i].n);
        __asm__ volatile("" ::: "memory");
    }
    landing = NULL;
    return done;
}
