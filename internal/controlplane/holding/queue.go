package holding

import "slices"

// sparse is how many tickets a queue keeps of those that have left, for each one that waits.
const sparse = 2

// queue are tickets in the order of their arrival. A ticket may leave from the midst: it is dropped later, with others, so that
// neither arrival nor leaving takes longer where many wait. What tells who still waits is an argument.
type queue struct {
	tickets []Ticket
	waiting int
}

// push adds the latest ticket.
func (q *queue) push(ticket Ticket) {
	q.tickets = append(q.tickets, ticket)
	q.waiting++
}

// leave notes that one has left.
func (q *queue) leave(waits func(Ticket) bool) {
	q.waiting--
	if len(q.tickets) > sparse*(q.waiting+1) {
		q.tickets = slices.DeleteFunc(q.tickets, func(ticket Ticket) bool { return !waits(ticket) })
	}
}

// first is the oldest ticket that waits. There has to be one.
func (q *queue) first(waits func(Ticket) bool) Ticket {
	for !waits(q.tickets[0]) {
		q.tickets = q.tickets[1:]
	}
	return q.tickets[0]
}
