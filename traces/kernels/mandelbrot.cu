// How many steps z = z*z + c stays inside the circle of radius 2, for each pixel: arithmetic without memory traffic, and lanes
// that finish at different times.

extern "C" __global__ void mandelbrot(int* steps, int width, float left, float top, float pixel, int limit) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    float cx = left + column * pixel, cy = top - row * pixel;
    float x = 0.0f, y = 0.0f;
    int step = 0;
    while (step < limit && x * x + y * y <= 4.0f) {
        float next = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = next;
        ++step;
    }
    steps[row * width + column] = step;
}
