// Package jobs runs work in the background.
package jobs

import (
	"context"
	"errors"
	"math/rand"
	"time"
)

// ErrGaveUp is returned when every attempt has failed.
var ErrGaveUp = errors.New("gave up")

// Backoff says how long to wait between attempts.
type Backoff struct {
	First    time.Duration
	Factor   float64
	Longest  time.Duration
	Attempts int
}

// Delay grows exponentially and is spread at random, so that clients do not come back in step.
func (b Backoff) Delay(attempt int) time.Duration {
	wait := float64(b.First)
	for i := 1; i < attempt; i++ {
		wait *= b.Factor
	}
	if wait > float64(b.Longest) {
		wait = float64(b.Longest)
	}
	return time.Duration(wait/2 + rand.Float64()*wait/2)
}

// Retry calls work until it succeeds, the context ends, or the attempts are used up.
func Retry(ctx context.Context, backoff Backoff, work func() error) error {
	for attempt := 1; attempt <= backoff.Attempts; attempt++ {
		if work() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backoff.Delay(attempt)):
		}
	}
	return ErrGaveUp
}
