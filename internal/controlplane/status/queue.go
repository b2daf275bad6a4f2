package status

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// canariesFirst is the order in which objects are looked at: a proxy that comes changes the count in
// every object, and those in a canary must not wait for the others. It is a workqueue.Queue.
type canariesFirst struct {
	isCanary         func(model.Key) bool
	canaries, others []model.Key
}

// Push is workqueue.Queue's.
func (q *canariesFirst) Push(key model.Key) {
	if q.isCanary(key) {
		q.canaries = append(q.canaries, key)
	} else {
		q.others = append(q.others, key)
	}
}

// Touch is workqueue.Queue's: what has become a canary while it waits comes forward.
func (q *canariesFirst) Touch(key model.Key) {
	if len(q.others) == 0 || !q.isCanary(key) {
		return
	}
	if place := slices.Index(q.others, key); place >= 0 {
		q.others = slices.Delete(q.others, place, place+1)
		q.canaries = append(q.canaries, key)
	}
}

// Len is workqueue.Queue's.
func (q *canariesFirst) Len() int { return len(q.canaries) + len(q.others) }

// Pop is workqueue.Queue's. There is one at least.
func (q *canariesFirst) Pop() model.Key {
	from := &q.canaries
	if len(*from) == 0 {
		from = &q.others
	}
	key := (*from)[0]
	*from = (*from)[1:]
	return key
}
