// The length of the Collatz sequence of start + i: halve an even number, else 3n + 1, until 1 is reached.
// Neighbouring numbers take very different numbers of steps, so the lanes of a warp leave the loop one by one: divergence.
// `peak` is the largest number on the way, in 64 bits.

extern "C" __global__ void collatz(unsigned long long start, int* steps, unsigned long long* peak, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned long long number = start + i, largest = number;
    int length = 0;
    while (number != 1) {
        if (number % 2 == 0) {
            number /= 2;
        } else {
            number = 3 * number + 1;
            if (number > largest) largest = number;
        }
        ++length;
    }
    steps[i] = length;
    peak[i] = largest;
}
