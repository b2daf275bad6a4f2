package holding

import "slices"

// maxStale is how many removed waiters a fifo keeps for each one that waits.
const maxStale = 2

// fifo contains waiters in the order of their arrival. A waiter in the middle is removed lazily, together with others,
// so that the costs of push and remove do not depend on the length. Its methods get isWaiting, which is false for
// removed waiters.
type fifo struct {
	waiters []Waiter
	waiting int
}

// push adds the latest waiter.
func (f *fifo) push(waiter Waiter) {
	f.waiters = append(f.waiters, waiter)
	f.waiting++
}

// remove records that one waiter was removed.
func (f *fifo) remove(isWaiting func(Waiter) bool) {
	f.waiting--
	if len(f.waiters) > maxStale*(f.waiting+1) {
		f.waiters = slices.DeleteFunc(f.waiters, func(waiter Waiter) bool { return !isWaiting(waiter) })
	}
}

// first returns the oldest waiter. The fifo must not be empty.
func (f *fifo) first(isWaiting func(Waiter) bool) Waiter {
	for !isWaiting(f.waiters[0]) {
		f.waiters = f.waiters[1:]
	}
	return f.waiters[0]
}
