package jobs

import "sync"

// Job is a unit of background work.
type Job struct {
	ID       string
	Priority int
	Run      func() error
}

// Queue hands jobs to workers, the most urgent first.
type Queue struct {
	mutex   sync.Mutex
	waiting []Job
	wake    *sync.Cond
	closed  bool
}

// NewQueue makes an empty queue.
func NewQueue() *Queue {
	q := &Queue{}
	q.wake = sync.NewCond(&q.mutex)
	return q
}

// Push adds a job and wakes one worker.
func (q *Queue) Push(job Job) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	place := len(q.waiting)
	for i, other := range q.waiting {
		if job.Priority > other.Priority {
			place = i
			break
		}
	}
	q.waiting = append(q.waiting[:place], append([]Job{job}, q.waiting[place:]...)...)
	q.wake.Signal()
}

// Pop waits for a job; ok is false after Close once nothing is left.
func (q *Queue) Pop() (job Job, ok bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for len(q.waiting) == 0 && !q.closed {
		q.wake.Wait()
	}
	if len(q.waiting) == 0 {
		return Job{}, false
	}
	job, q.waiting = q.waiting[0], q.waiting[1:]
	return job, true
}

// Close lets workers drain the queue and go home.
func (q *Queue) Close() {
	q.mutex.Lock()
	q.closed = true
	q.mutex.Unlock()
	q.wake.Broadcast()
}
