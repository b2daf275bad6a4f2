package xds

// queue is a set of names in the order in which they came.
type queue struct {
	set   map[string]struct{}
	names []string // some of which may no longer be in the set
}

// add puts a name at the end, unless it is there.
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

// has tells whether the name is there.
func (q *queue) has(name string) bool {
	_, has := q.set[name]
	return has
}

// remove takes a name away.
func (q *queue) remove(name string) {
	delete(q.set, name)
	if len(q.set) == 0 {
		q.set, q.names = nil, nil // A stream that is up to date holds no room for what it once was sent.
	}
}

// pop takes the first name, and is false when there is none.
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

// count is the number of names.
func (q *queue) count() int { return len(q.set) }
