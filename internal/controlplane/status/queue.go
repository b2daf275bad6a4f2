package status

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// canariesFirst is a workqueue.Queue that returns objects in a canary before the others. A new proxy changes the counts
// in the status of every object, and a Rollout must not wait for all of these writes.
type canariesFirst struct {
	isCanary         func(model.Key) bool
	canaries, others []model.Key
}

// Push implements workqueue.Queue.
func (q *canariesFirst) Push(key model.Key) {
	if q.isCanary(key) {
		q.canaries = append(q.canaries, key)
	} else {
		q.others = append(q.others, key)
	}
}

// Touch implements workqueue.Queue. A queued object in which a canary has begun moves to the canaries.
func (q *canariesFirst) Touch(key model.Key) {
	if len(q.others) == 0 || !q.isCanary(key) {
		return
	}
	if index := slices.Index(q.others, key); index >= 0 {
		q.others = slices.Delete(q.others, index, index+1)
		q.canaries = append(q.canaries, key)
	}
}

// Len implements workqueue.Queue.
func (q *canariesFirst) Len() int { return len(q.canaries) + len(q.others) }

// Pop implements workqueue.Queue. The queue isn't empty.
func (q *canariesFirst) Pop() model.Key {
	keys := &q.canaries
	if len(*keys) == 0 {
		keys = &q.others
	}
	key := (*keys)[0]
	*keys = (*keys)[1:]
	return key
}
