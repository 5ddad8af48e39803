// Thread blocks that serve the queues of a program (program.py): every queue by WAYS blocks, each of GROUPS groups of GROUP
// threads, which take the queue's tasks in turn. Compiled by NVRTC, with one of the names of element types defined.
// tests/stand_in.h replaces what is CUDA's own, so that this file also runs as C++.

struct Task {
    long long segments, segments_end, waits, waits_end, from, to, gate, closes, adds, begins, cycles;
};
struct Segment {
    long long from, to, bytes;
};
struct Program {
    const Task* tasks;
    const Segment* segments;
    const int* waits;
    const int* queues;
    const int* served;        // queues that this launch serves
    unsigned char** memories; // of all ranks, then that of relays
    unsigned* flags;          // by task: blocks that have ended it, in all runs; then, that have given it its turn
    unsigned* gates;          // by gate: blocks that have ended a task of it
    const unsigned* gate_sizes;
    unsigned* arrived;        // blocks that are there
    unsigned* stop;           // not 0: all leave; behind it tasks that have ended anywhere
    long long* times;         // when each task of the first ways ended; then, when each block began
    long long count, ways, first_block, blocks, run, patience;
};

#ifndef STAND_IN
#define DEVICE __device__ __forceinline__
#define KERNEL extern "C" __global__ void
#define BLOCK_STATE(Type, name) __shared__ Type name
typedef uint4 Unit;

// A word of other blocks: read so that what they wrote before is seen; counted up so that they see what this one wrote.
DEVICE unsigned acquire(const unsigned* word) {
    unsigned value;
    asm volatile("ld.acquire." SCOPE ".global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}
DEVICE void count_up(unsigned* word) {
    asm volatile("red.release." SCOPE ".global.add.u32 [%0], 1;" ::"l"(word) : "memory");
}
DEVICE void note(unsigned* word) {
    atomicAdd(word, 1);
}
DEVICE unsigned noted(const unsigned* word) {
    return *(const volatile unsigned*)word;
}
// As acquire and count_up, within a block.
DEVICE unsigned acquire_block(const unsigned* word) {
    unsigned value;
    asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}
DEVICE void release_block(unsigned* word, unsigned value) {
    asm volatile("st.release.cta.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
DEVICE long long cycle() {
    return clock64();
}
DEVICE long long nanosecond() {
    long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}
DEVICE void relax() {}
DEVICE void join_group(int group) {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(GROUP) : "memory");
}
DEVICE void join_block() {
    __syncthreads();
}
template <typename T> DEVICE T load(const T* from) {
    return __ldcg(from);
}
template <typename T> DEVICE void store(T* to, T value) {
    __stcg(to, value);
}

#if defined(FLOAT32)
typedef float Element;
DEVICE void add(float* to, float value) {
    atomicAdd(to, value);
}
#if __CUDA_ARCH__ >= 900
DEVICE void add(Unit* to, Unit v) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(__uint_as_float(v.x)),
                 "f"(__uint_as_float(v.y)), "f"(__uint_as_float(v.z)), "f"(__uint_as_float(v.w)) : "memory");
}
#else
DEVICE void add_word(unsigned* to, unsigned value) {
    atomicAdd((float*)to, __uint_as_float(value));
}
#define ADD_WORDS
#endif
#elif defined(INT32)
typedef int Element;
DEVICE void add(int* to, int value) {
    atomicAdd(to, value);
}
DEVICE void add_word(unsigned* to, unsigned value) {
    atomicAdd(to, value);
}
#define ADD_WORDS
#else // two numbers of 16 bits a word
typedef unsigned short Element;
#if defined(FLOAT16)
#define PAIR "f16x2"
#else
#define PAIR "bf16x2"
#endif
#if defined(FLOAT16) || __CUDA_ARCH__ >= 900
DEVICE void add_word(unsigned* to, unsigned value) {
    asm volatile("red.relaxed.gpu.global.add.noftz." PAIR " [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
#else
DEVICE void add_word(unsigned* to, unsigned value) {
    unsigned one = 0x3f803f80u, old = *(volatile unsigned*)to, sum, seen;
    for (;; old = seen) {
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(value), "r"(one), "r"(old));
        seen = atomicCAS(to, old, sum);
        if (seen == old) return;
    }
}
#endif
// The other number of the word is added -0, which changes nothing.
DEVICE void add(Element* to, Element value) {
    bool high = (unsigned long long)to & 2;
    add_word((unsigned*)((unsigned long long)to & ~3ull), high ? (unsigned)value << 16 | 0x8000u : value | 0x80000000u);
}
#define ADD_WORDS
#endif
#ifdef ADD_WORDS
DEVICE void add(Unit* to, Unit value) {
    unsigned* words = (unsigned*)to;
    add_word(words, value.x);
    add_word(words + 1, value.y);
    add_word(words + 2, value.z);
    add_word(words + 3, value.w);
}
#endif
#endif // STAND_IN

static const long long UNIT = 16, PIECE = 1024; // bytes; units after which the pace is looked at
static const int BATCH = 4;                     // loads of a thread that are under way together

struct Shared {
    unsigned turn;             // tasks of the queue that have begun
    unsigned over;             // whether to leave
    long long free_at;         // when the link is free; of whoever has the turn
    long long start[GROUPS];   // when each group's task begins, -1: to leave
};

// Whether a word reached a value before others told to stop, or nothing ended anywhere for too long.
DEVICE bool reached(const Program& p, const unsigned* word, unsigned value) {
    long long since = cycle();
    unsigned before = noted(p.stop + 1);
    for (unsigned polls = 1; (int)(acquire(word) - value) < 0; ++polls) {
        relax();
        if (polls % 64 == 0) {
            if (cycle() - since > p.patience) {
                const unsigned now = noted(p.stop + 1);
                if (now == before) count_up(p.stop);
                before = now, since = cycle();
            }
            if (acquire(p.stop) != 0) return false;
        }
    }
    return true;
}

// Elements of bytes first to last of a segment.
DEVICE void move_elements(unsigned char* to, const unsigned char* from, long long first, long long last, bool adds, int thread) {
    for (long long at = first + thread * (int)sizeof(Element); at < last; at += GROUP * (int)sizeof(Element)) {
        Element value = load((const Element*)(from + at));
        if (adds) add((Element*)(to + at), value);
        else store((Element*)(to + at), value);
    }
}

DEVICE void move(const Program& p, const Task& task, int way, int thread, long long start) {
    long long total = 0, done = 0;
    for (long long s = task.segments; s < task.segments_end; ++s) total += p.segments[s].bytes;
    for (long long s = task.segments; s < task.segments_end; ++s) {
        const Segment segment = p.segments[s];
        const unsigned char* from = p.memories[task.from] + segment.from;
        unsigned char* to = p.memories[task.to] + segment.to;
        const long long skew = (unsigned long long)to % UNIT, end = skew + segment.bytes;
        if ((long long)((unsigned long long)from % UNIT) != skew) {
            if (way == 0) move_elements(to, from, 0, segment.bytes, task.adds, thread);
            continue;
        }
        // Units that are whole, as if the segment began at the unit before.
        const long long whole = skew ? 1 : 0, whole_end = end / UNIT;
        if (way == 0) {
            const long long head = whole * UNIT - skew < segment.bytes ? whole * UNIT - skew : segment.bytes;
            const long long tail = whole_end > whole ? whole_end * UNIT - skew : head;
            move_elements(to, from, 0, head, task.adds, thread);
            move_elements(to, from, tail, segment.bytes, task.adds, thread);
        }
        const Unit* from_units = (const Unit*)(from - skew);
        Unit* to_units = (Unit*)(to - skew);
        for (long long piece = whole + way * PIECE; piece < whole_end; piece += p.ways * PIECE) {
            const long long last = piece + PIECE < whole_end ? piece + PIECE : whole_end;
            for (long long unit = piece + thread; unit < last; unit += BATCH * GROUP) {
                Unit values[BATCH];
#pragma unroll
                for (int i = 0; i < BATCH; ++i)
                    if (unit + i * GROUP < last) values[i] = load(from_units + unit + i * GROUP);
#pragma unroll
                for (int i = 0; i < BATCH; ++i)
                    if (unit + i * GROUP < last) {
                        if (task.adds) add(to_units + unit + i * GROUP, values[i]);
                        else store(to_units + unit + i * GROUP, values[i]);
                    }
            }
            // Not ahead of the link, so that what others see of the memory's load is even.
            if (task.cycles > 0 && thread == 0) {
                const long long moved = done + (last - whole) * UNIT;
                const long long at = start + (long long)((double)task.cycles * moved / total);
                while (cycle() < at) relax();
            }
        }
        done += segment.bytes;
    }
}

KERNEL __launch_bounds__(GROUP * GROUPS, BLOCKS) carry(Program p) {
    BLOCK_STATE(Shared, shared);
    const int queue = p.served[blockIdx.x / p.ways], way = blockIdx.x % p.ways;
    const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP;
    const unsigned run = (unsigned)p.run, ways = (unsigned)p.ways;
    const long long first = p.queues[queue], last = p.queues[queue + 1];
    if (threadIdx.x == 0) {
        release_block(&shared.turn, 0);
        count_up(p.arrived);
        release_block(&shared.over, !reached(p, p.arrived, run * (unsigned)p.blocks));
        p.times[p.count + p.first_block + blockIdx.x] = nanosecond();
        shared.free_at = cycle();
    }
    join_block();
    for (long long number = first + group; number < last; number += GROUPS) {
        const Task task = p.tasks[number];
        for (long long wait = task.waits + thread; wait < task.waits_end; wait += GROUP)
            if (!reached(p, p.flags + p.waits[wait], run * ways)) release_block(&shared.over, 1);
        if (thread == 0) {
            if (task.gate >= 0 && !reached(p, p.gates + task.gate, run * ways * p.gate_sizes[task.gate]))
                release_block(&shared.over, 1);
        }
        join_group(group);
        if (thread == 0) {
            const unsigned turn = (unsigned)(number - first);
            while (acquire_block(&shared.turn) != turn && !acquire_block(&shared.over)) relax();
            long long start = -1;
            if (!acquire_block(&shared.over)) {
                const long long now = cycle();
                start = shared.free_at > now ? shared.free_at : now;
                shared.free_at = start + task.cycles;
                release_block(&shared.turn, turn + 1);
                if (task.begins) count_up(p.flags + p.count + number);
                while (cycle() < start) relax();
            }
            shared.start[group] = start;
        }
        join_group(group);
        const long long start = shared.start[group];
        if (start < 0) return;
        move(p, task, way, thread, start);
        join_group(group);
        if (thread == 0) {
            while (cycle() < start + task.cycles) relax();
            if (way == 0) {
                p.times[number] = nanosecond();
                note(p.stop + 1);
            }
            count_up(p.flags + number);
            if (task.closes >= 0) count_up(p.gates + task.closes);
        }
    }
}

// How long some cycles take, in ns.
KERNEL spin(long long cycles, long long* time) {
    const long long since = nanosecond(), start = cycle();
    while (cycle() - start < cycles) relax();
    *time = nanosecond() - since;
}
