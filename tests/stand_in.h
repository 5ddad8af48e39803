// What kernel.cu needs of CUDA, on threads of the processor: a thread block is a group of them.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <memory>
#include <sched.h>
#include <thread>
#include <vector>

#define STAND_IN
#define DEVICE static inline
#define KERNEL extern "C" void
#define __launch_bounds__(threads, blocks)
#define BLOCK_STATE(Type, name) Type& name = *reinterpret_cast<Type*>(here->state)

struct alignas(16) Unit {
    unsigned words[4];
};
struct Index {
    int x;
};
struct Block {
    alignas(64) unsigned char state[256];
    std::barrier<> all{GROUP * GROUPS};
    std::vector<std::unique_ptr<std::barrier<>>> groups;
    Block() {
        for (int group = 0; group < GROUPS; ++group) groups.push_back(std::make_unique<std::barrier<>>(GROUP));
    }
};
static thread_local Block* here;
static thread_local Index threadIdx, blockIdx;
static thread_local unsigned dice;

// So that threads meet in many orders.
static inline void relax() {
    sched_yield();
}
static inline void stumble() {
    dice = dice * 1664525u + 1013904223u;
    if (dice >> 28 == 0) relax();
}
static inline unsigned acquire(const unsigned* word) {
    stumble();
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
static inline void count_up(unsigned* word) {
    stumble();
    __atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
}
static inline void note(unsigned* word) {
    __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
}
static inline unsigned noted(const unsigned* word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}
static inline unsigned acquire_block(const unsigned* word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
static inline void release_block(unsigned* word, unsigned value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
static inline long long nanosecond() {
    return std::chrono::steady_clock::now().time_since_epoch().count();
}
static inline long long cycle() {
    return nanosecond();
}
static inline void join_group(int group) {
    here->groups[group]->arrive_and_wait();
}
static inline void join_block() {
    here->all.arrive_and_wait();
}
template <typename T> static inline T load(const T* from) {
    stumble();
    return *from;
}
template <typename T> static inline void store(T* to, T value) {
    *to = value;
}

#if defined(FLOAT32)
typedef float Element;
static inline float sum(float a, float b) { return a + b; }
#elif defined(INT32)
typedef int Element;
static inline int sum(int a, int b) { return a + b; }
#else
typedef unsigned short Element;
static inline Element sum(Element a, Element b) {
#if defined(FLOAT16)
    _Float16 x, y;
    std::memcpy(&x, &a, 2), std::memcpy(&y, &b, 2);
    x += y;
    std::memcpy(&a, &x, 2);
#else // exact sums only
    unsigned wide[2] = {(unsigned)a << 16, (unsigned)b << 16};
    float x, y;
    std::memcpy(&x, wide, 4), std::memcpy(&y, wide + 1, 4);
    x += y;
    std::memcpy(wide, &x, 4);
    a = wide[0] >> 16;
#endif
    return a;
}
#endif
static inline void add(Element* to, Element value) {
    Element old, next;
    __atomic_load(to, &old, __ATOMIC_RELAXED);
    do next = sum(old, value);
    while (!__atomic_compare_exchange(to, &old, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
static inline void add(Unit* to, Unit value) {
    for (unsigned i = 0; i < sizeof(Unit) / sizeof(Element); ++i) add((Element*)to + i, ((Element*)&value)[i]);
}

#include KERNEL_FILE

// Runs a kernel's blocks at once, and returns when they have ended.
template <typename Kernel> static void launch(int blocks, Kernel kernel) {
    std::vector<Block> there(blocks);
    std::vector<std::thread> threads;
    for (int block = 0; block < blocks; ++block)
        for (int thread = 0; thread < GROUP * GROUPS; ++thread)
            threads.emplace_back([&, block, thread] {
                here = &there[block], blockIdx.x = block, threadIdx.x = thread;
                dice = block * 7919 + thread * 104729 + (unsigned)nanosecond();
                kernel();
            });
    for (auto& thread : threads) thread.join();
}
extern "C" void launch_carry(int blocks, void** arguments) {
    launch(blocks, [=] { carry(*(Program*)arguments[0]); });
}
extern "C" void launch_spin(int blocks, void** arguments) {
    launch(blocks, [=] { spin(*(long long*)arguments[0], *(long long**)arguments[1]); });
}
