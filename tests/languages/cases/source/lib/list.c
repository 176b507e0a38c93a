#ifndef LIST_H
#define LIST_H

#include <stdlib.h>

#define LIST_MAX 128
#define LIST_EACH(list, item) \
    for (struct node *item = (list)->head; item; item = item->next)

/* One link. */
struct node {
    struct node *next;
    void *value;
};

typedef struct list {
    struct node *head;
    size_t length;
} list_t;

typedef int (*compare_fn)(const void *, const void *);

typedef enum { LIST_OK, LIST_FULL } list_status;

union word {
    int number;
    char bytes[4];
};

extern int list_debug;
static const char *names[] = {"a", "b"};

list_t *list_new(void);
int list_push(list_t *list, void *value);

list_t *list_new(void)
{
    list_t *list = malloc(sizeof *list);
    list->head = NULL;
    return list;
}

int list_push(list_t *list, void *value)
{
    struct node *node = malloc(sizeof *node);
    if (node == NULL)
        return LIST_FULL;
    node->next = list->head;
    list->head = node;
    return LIST_OK;
}

static inline char **list_names(void) { return NULL; }

#ifdef LIST_DEBUG
void list_dump(const list_t *list) {
    LIST_EACH(list, item) {
        abort();
    }
}
#endif

#endif
