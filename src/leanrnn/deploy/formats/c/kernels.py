"""Functions of C that a written file calls, each in the file only if it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["KERNELS", "Kernel", "needed"]


@dataclass(frozen=True)
class Kernel:
    """A function, and the ones that it calls itself."""

    text: str
    calls: tuple[str, ...] = ()


def needed(names: Iterable[str]) -> list[str]:
    """With those that they call, every one before its callers."""
    wanted: set[str] = set()

    def add(name: str) -> None:
        for each in KERNELS[name].calls:
            add(each)
        wanted.add(name)

    for name in names:
        add(name)
    return [name for name in KERNELS if name in wanted]


EXPONENTIAL = """
/* e to the power of x for x from -87 to 87, within 3e-7 of itself: 2^n times a polynomial of what is left.
   It compares whole numbers: comparing floats would keep a compiler from computing several at once. */
static inline float exponential(float x)
{
    union { float number; int32_t bits; } given, inside, power;
    given.number = x;
    const int32_t size = given.bits & 0x7fffffff, limit = 0x42ae0000; /* of 87 */
    inside.bits = (size < limit ? size : limit) | (given.bits & ~0x7fffffff);
    const int32_t n = (int32_t)(inside.number * 0x1.715476p+0f + 128.5f) - 128;
    const float r = (inside.number - (float)n * 0x1.62e4p-1f) - (float)n * 0x1.7f7d1cp-20f;
    float sum = 1.0f / 720.0f;
    sum = sum * r + 1.0f / 120.0f;
    sum = sum * r + 1.0f / 24.0f;
    sum = sum * r + 1.0f / 6.0f;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    power.bits = (n + 127) * 8388608;
    power.number *= sum;
    power.bits |= size > 0x7f800000 ? 0x7fc00000 : 0; /* what is no number stays none */
    return power.number;
}
"""
SIGMOID = """
static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + exponential(-x));
}
"""
TANGENT = """
/* tanh, within 2e-7 */
static inline float hyperbolic_tangent(float x)
{
    return 2.0f / (1.0f + exponential(-2.0f * x)) - 1.0f;
}
"""
ADD_PRODUCT = """
/* y += W x; W has its columns one after the other. */
static void add_product(float *restrict y, const float *restrict x, const float *restrict w, int rows, int columns)
{
    const int fours = columns - columns % 4;
    for (int j = 0; j < fours; j += 4, w += 4 * rows) {
        const float a = x[j], b = x[j + 1], c = x[j + 2], d = x[j + 3];
        for (int i = 0; i < rows; i++)
            y[i] += a * w[i] + b * w[rows + i] + c * w[2 * rows + i] + d * w[3 * rows + i];
    }
    for (int j = fours; j < columns; j++, w += rows)
        for (int i = 0; i < rows; i++)
            y[i] += x[j] * w[i];
}
"""
ADD_PRODUCT_OF_BYTES = """
/* y += W x; W has its rows one after the other, in bytes with a scale for each; x is rounded to 16 bits or less, so
   that sums of whole numbers have room. */
static void add_product_of_bytes(float *restrict y, const float *restrict x, const signed char *restrict w,
                                 const float *restrict scales, int16_t *restrict rounded, int rows, int columns)
{
    union { float number; int32_t bits; } most, each;
    const float limit = columns > 512 ? 16800000.0f / (float)columns : 32766.0f;
    most.bits = 0;
    for (int j = 0; j < columns; j++) {
        each.number = x[j];
        each.bits &= 0x7fffffff;
        most.bits = each.bits > most.bits ? each.bits : most.bits;
    }
    if (most.bits < 0x0d800000) /* all less than 1e-30 */
        return;
    if (most.bits >= 0x7f800000) { /* infinite, or no number: then nothing is one */
        for (int i = 0; i < rows; i++)
            y[i] += most.number - most.number;
        return;
    }
    const float factor = limit / most.number, step = most.number / limit;
    for (int j = 0; j < columns; j++)
        rounded[j] = (int16_t)((int32_t)(x[j] * factor + 32768.5f) - 32768);
    for (int i = 0; i < rows; i++, w += columns) {
        int32_t sum = 0;
        for (int j = 0; j < columns; j++)
            sum += rounded[j] * w[j];
        y[i] += (float)sum * (step * scales[i]);
    }
}
"""
LSTM = """
/* A step of an LSTM; gates: what the input and the last h make of the input, forget, cell and output gate. */
static void lstm_step(float *restrict h, float *restrict c, const float *restrict gates, int width)
{
    for (int i = 0; i < width; i++) {
        const float in = sigmoid(gates[i]), forget = sigmoid(gates[width + i]);
        const float cell = hyperbolic_tangent(gates[2 * width + i]), out = sigmoid(gates[3 * width + i]);
        c[i] = forget * c[i] + in * cell;
        h[i] = out * hyperbolic_tangent(c[i]);
    }
}
"""
GRU = """
/* A step of a GRU; x and g: what the input and the last h make of the reset, update and new gate. */
static void gru_step(float *restrict h, const float *restrict x, const float *restrict g, int width)
{
    for (int i = 0; i < width; i++) {
        const float reset = sigmoid(x[i] + g[i]), update = sigmoid(x[width + i] + g[width + i]);
        const float fresh = hyperbolic_tangent(x[2 * width + i] + reset * g[2 * width + i]);
        h[i] = fresh + update * (h[i] - fresh);
    }
}
"""
LAYER_NORM = """
/* (x - mean) / deviation, times w, plus b */
static void layer_norm(float *restrict y, const float *restrict x, const float *w, const float *b, float eps, int width)
{
    float mean = 0.0f, square = 0.0f;
    for (int i = 0; i < width; i++)
        mean += x[i];
    mean /= (float)width;
    for (int i = 0; i < width; i++)
        square += (x[i] - mean) * (x[i] - mean);
    const float factor = 1.0f / sqrtf(square / (float)width + eps);
    for (int i = 0; i < width; i++)
        y[i] = (x[i] - mean) * factor * w[i] + b[i];
}
"""
RMS_NORM = """
/* x / root of its mean square, times w */
static void rms_norm(float *restrict y, const float *restrict x, const float *w, float eps, int width)
{
    float square = 0.0f;
    for (int i = 0; i < width; i++)
        square += x[i] * x[i];
    const float factor = 1.0f / sqrtf(square / (float)width + eps);
    for (int i = 0; i < width; i++)
        y[i] = x[i] * factor * w[i];
}
"""
SOFTMAX = """
static void softmax(float *restrict y, const float *restrict x, int width)
{
    float most = x[0], sum = 0.0f;
    for (int i = 1; i < width; i++)
        most = x[i] > most ? x[i] : most;
    for (int i = 0; i < width; i++)
        y[i] = exponential(x[i] - most);
    for (int i = 0; i < width; i++)
        sum += y[i];
    for (int i = 0; i < width; i++)
        y[i] /= sum;
}
"""
LOG_SOFTMAX = """
static void log_softmax(float *restrict y, const float *restrict x, int width)
{
    float most = x[0], sum = 0.0f;
    for (int i = 1; i < width; i++)
        most = x[i] > most ? x[i] : most;
    for (int i = 0; i < width; i++)
        y[i] = exponential(x[i] - most);
    for (int i = 0; i < width; i++)
        sum += y[i];
    const float all = most + logf(sum);
    for (int i = 0; i < width; i++)
        y[i] = x[i] - all;
}
"""
KERNELS = {
    "exponential": Kernel(EXPONENTIAL),
    "sigmoid": Kernel(SIGMOID, ("exponential",)),
    "hyperbolic_tangent": Kernel(TANGENT, ("exponential",)),
    "add_product": Kernel(ADD_PRODUCT),
    "add_product_of_bytes": Kernel(ADD_PRODUCT_OF_BYTES),
    "lstm_step": Kernel(LSTM, ("sigmoid", "hyperbolic_tangent")),
    "gru_step": Kernel(GRU, ("sigmoid", "hyperbolic_tangent")),
    "layer_norm": Kernel(LAYER_NORM),
    "rms_norm": Kernel(RMS_NORM),
    "softmax": Kernel(SOFTMAX, ("exponential",)),
    "log_softmax": Kernel(LOG_SOFTMAX, ("exponential",)),
}
"""By name, in the order in which they stand in a file."""
