// A tiny virtual machine: each thread runs the program in constant memory on its own stack of registers. The program counter
// is the same in all lanes until a conditional jump sends them different ways; the switch is a chain of branches.

enum Opcode { PUSH, LOAD_X, DUP, SWAP, ADD, SUB, MUL, XOR, SHIFT_RIGHT, ROTATE, JUMP_IF_ODD, STORE, HALT };

struct Instruction {
    int opcode;
    int operand;
};

// One step of n = n odd ? 3n + 1 : n / 2, whose result also goes into the checksum. AT is the step's place in the program.
#define STEP(AT)                                                                                                          \
    {DUP, 0}, {JUMP_IF_ODD, (AT) + 5}, {PUSH, 1}, {SHIFT_RIGHT, 0}, {JUMP_IF_ODD, -((AT) + 9)}, {PUSH, 3}, {MUL, 0},      \
        {PUSH, 1}, {ADD, 0}, {DUP, 0}, {STORE, 0}

__constant__ Instruction program[] = {
    {LOAD_X, 0}, STEP(1), STEP(12), STEP(23), STEP(34), {DUP, 0}, {ROTATE, 7}, {SWAP, 0}, {PUSH, 0x5bd1e995}, {XOR, 0},
    {SUB, 0}, {STORE, 0}, {HALT, 0},
};

// Horner's rule with coefficients from constant memory: the shortest use of the constant bank as an operand.
__constant__ float coefficients[6] = {1.0f, -0.5f, 0.33333334f, -0.25f, 0.2f, -0.16666667f};

extern "C" __global__ void bytecode(const unsigned* __restrict__ x, unsigned* checksum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned top = 0, second = 0, third = 0;  // the three topmost stack slots
    unsigned sum = 0;
    int counter = 0;
    for (bool running = true; running;) {
        Instruction now = program[counter++];
        switch (now.opcode) {
            case PUSH: third = second, second = top, top = now.operand; break;
            case LOAD_X: third = second, second = top, top = x[i]; break;
            case DUP: third = second, second = top; break;
            case SWAP: { unsigned old = top; top = second, second = old; break; }
            case ADD: top = second + top, second = third; break;
            case SUB: top = second - top, second = third; break;
            case MUL: top = second * top, second = third; break;
            case XOR: top = second ^ top, second = third; break;
            case SHIFT_RIGHT: top = second >> top, second = third; break;
            case ROTATE: top = __funnelshift_l(top, top, now.operand); break;
            case JUMP_IF_ODD:  // a negative target jumps always
                if (now.operand < 0) {
                    counter = -now.operand;
                } else {
                    if (top % 2) counter = now.operand;
                    top = second, second = third;
                }
                break;
            case STORE: sum = sum * 31 + top, top = second, second = third; break;
            default: running = false;
        }
    }
    checksum[i] = sum;
}

extern "C" __global__ void polynomial(const float* __restrict__ x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i], sum = 0.0f;
#pragma unroll
    for (int j = 5; j >= 0; --j) sum = sum * value + coefficients[j];
    y[i] = sum * coefficients[i % 6];  // an index that differs from lane to lane
}
