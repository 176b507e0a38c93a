/* A queue of bytes of fixed size between one reader and one writer; no locks. */
#include <stdatomic.h>
#include <stddef.h>

#define RING_CAPACITY 4096

struct ring_buffer {
    unsigned char bytes[RING_CAPACITY];
    atomic_size_t head, tail;
};

/* Appends a byte; 0 if the buffer is full. */
int ring_push(struct ring_buffer *ring, unsigned char byte)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - atomic_load_explicit(&ring->tail, memory_order_acquire) == RING_CAPACITY)
        return 0;
    ring->bytes[head % RING_CAPACITY] = byte;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return 1;
}

/* Takes the oldest byte; -1 if there is none. */
int ring_pop(struct ring_buffer *ring)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail == atomic_load_explicit(&ring->head, memory_order_acquire))
        return -1;
    int byte = ring->bytes[tail % RING_CAPACITY];
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return byte;
}
