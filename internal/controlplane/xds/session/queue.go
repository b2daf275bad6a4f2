package session

// queue is a set of names in order of arrival.
type queue struct {
	set   map[string]struct{}
	names []string // may contain names that are no longer in the set
}

// add appends a name if it is not in the queue.
func (q *queue) add(name string) {
	if q.has(name) {
		return
	}
	if q.set == nil {
		q.set = map[string]struct{}{}
	}
	q.set[name] = struct{}{}
	q.names = append(q.names, name)
}

// has reports whether the name is in the queue.
func (q *queue) has(name string) bool {
	_, has := q.set[name]
	return has
}

// remove removes a name.
func (q *queue) remove(name string) {
	delete(q.set, name)
	if len(q.set) == 0 {
		q.set, q.names = nil, nil // Frees the memory of a stream that is up to date.
	}
}

// pop removes and returns the first name. It returns false if there is none.
func (q *queue) pop() (string, bool) {
	for len(q.names) > 0 {
		name := q.names[0]
		q.names = q.names[1:]
		if q.has(name) {
			q.remove(name)
			return name, true
		}
	}
	return "", false
}

// count returns the number of names.
func (q *queue) count() int { return len(q.set) }
