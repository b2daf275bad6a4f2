package status

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// fairQueue is a workqueue.Queue that returns one object of each namespace in turn, so that the objects of one namespace
// do not delay those of others. The objects of a namespace have the order of Push.
type fairQueue struct {
	keys  map[string][]model.Key // by namespace; each has at least one
	turns []string               // the namespaces in keys, in the order of their turns
	count int
}

// Push implements workqueue.Queue.
func (q *fairQueue) Push(key model.Key) {
	if q.keys == nil {
		q.keys = map[string][]model.Key{}
	}
	if len(q.keys[key.Namespace]) == 0 {
		q.turns = append(q.turns, key.Namespace)
	}
	q.keys[key.Namespace] = append(q.keys[key.Namespace], key)
	q.count++
}

// Touch implements workqueue.Queue. A queued object keeps its place.
func (q *fairQueue) Touch(model.Key) {}

// Len implements workqueue.Queue.
func (q *fairQueue) Len() int { return q.count }

// Pop implements workqueue.Queue. The queue isn't empty.
func (q *fairQueue) Pop() model.Key {
	namespace := q.turns[0]
	q.turns = q.turns[1:]
	key := q.keys[namespace][0]
	if q.keys[namespace] = q.keys[namespace][1:]; len(q.keys[namespace]) > 0 {
		q.turns = append(q.turns, namespace)
	} else {
		delete(q.keys, namespace)
	}
	q.count--
	return key
}

// remove removes an object, and returns false if it isn't queued.
func (q *fairQueue) remove(key model.Key) bool {
	index := slices.Index(q.keys[key.Namespace], key)
	if index < 0 {
		return false
	}
	q.keys[key.Namespace] = slices.Delete(q.keys[key.Namespace], index, index+1)
	if len(q.keys[key.Namespace]) == 0 {
		delete(q.keys, key.Namespace)
		q.turns = slices.DeleteFunc(q.turns, func(namespace string) bool { return namespace == key.Namespace })
	}
	q.count--
	return true
}

// canariesFirst is a workqueue.Queue that returns objects in a canary before the others. A new proxy changes the counts
// in the status of every object, and a Rollout must not wait for all of these writes.
type canariesFirst struct {
	isCanary         func(model.Key) bool
	canaries, others fairQueue
}

// Push implements workqueue.Queue.
func (q *canariesFirst) Push(key model.Key) {
	if q.isCanary(key) {
		q.canaries.Push(key)
	} else {
		q.others.Push(key)
	}
}

// Touch implements workqueue.Queue. A queued object in which a canary has begun moves to the canaries.
func (q *canariesFirst) Touch(key model.Key) {
	if q.others.Len() > 0 && q.isCanary(key) && q.others.remove(key) {
		q.canaries.Push(key)
	}
}

// Len implements workqueue.Queue.
func (q *canariesFirst) Len() int { return q.canaries.Len() + q.others.Len() }

// Pop implements workqueue.Queue. The queue isn't empty.
func (q *canariesFirst) Pop() model.Key {
	if q.canaries.Len() > 0 {
		return q.canaries.Pop()
	}
	return q.others.Pop()
}
