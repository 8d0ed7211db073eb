// Mutual exclusion. What the locks protect is a plain read-modify-write; the sums come out right only if nobody else is in.
// All updates commute, so that the result does not depend on who enters first.

struct Account {
    unsigned next_ticket, now_serving;  // between blocks: first come, first served
    int spin_lock;                      // between lanes: compare-and-swap
    int entries;                        // protected by the ticket lock
    int balance;                        // protected by the spin lock
    int checksum;                       // likewise
};

// Every lane of every warp takes the spin lock once; lanes of one warp compete with each other, which needs independent thread
// scheduling (sm_70 on): the lane that holds the lock must run on while its neighbours spin.
extern "C" __global__ void locks(const int* __restrict__ x, Account* account) {
    int value = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (bool done = false; !done;) {
        if (atomicCAS(&account->spin_lock, 0, 1) == 0) {
            __threadfence();
            volatile int* balance = &account->balance;
            volatile int* checksum = &account->checksum;
            *balance = *balance + value;
            *checksum = *checksum ^ (value * 0x9e3779b1);
            __threadfence();
            atomicExch(&account->spin_lock, 0);
            done = true;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned ticket = atomicAdd(&account->next_ticket, 1);
        while (((volatile Account*)account)->now_serving != ticket) {
        }
        __threadfence();
        volatile int* entries = &account->entries;
        *entries = *entries + blockIdx.x + 1;
        __threadfence();
        atomicAdd(&account->now_serving, 1);
    }
}
