package crd

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// readPause is the shortest time between two reads of a schema.
const readPause = time.Second

// Published is the schema of a top-level field of a kind in the API server. It is read only when it is needed: after
// the API server rejected a write that the schema may not declare. The text of such a rejection isn't an API. A
// Published is safe for concurrent use.
type Published struct {
	read    func(context.Context) (*Schema, error)
	reading sync.Mutex // held during a read

	mu      sync.Mutex // not held during a request
	schema  *Schema    // of the last successful read, at readAt
	readAt  time.Time
	triedAt time.Time // of the last read, successful or not
}

// NewPublished returns the schema of a field of a kind. It makes no request.
func NewPublished(client rest.Interface, kind schema.GroupVersionKind, field string) *Published {
	return &Published{read: func(ctx context.Context) (*Schema, error) {
		return FieldSchema(ctx, client, kind, field)
	}}
}

// Last returns the schema of the last successful read, and the time since then. The schema is nil if it is unknown or the
// API server publishes none.
func (p *Published) Last() (last *Schema, age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.schema, time.Since(p.readAt)
}

// Refresh reads the schema, after any read in progress has ended. It makes no request if the last read is younger than
// readPause.
func (p *Published) Refresh(ctx context.Context) (*Schema, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	return p.refreshLocked(ctx)
}

// TryRefresh is Refresh without waiting for a read in progress: then it returns the schema of the last read.
func (p *Published) TryRefresh(ctx context.Context) (*Schema, error) {
	if !p.reading.TryLock() {
		last, _ := p.Last()
		return last, nil
	}
	defer p.reading.Unlock()
	return p.refreshLocked(ctx)
}

// refreshLocked is Refresh for a caller that holds reading.
func (p *Published) refreshLocked(ctx context.Context) (*Schema, error) {
	p.mu.Lock()
	last, triedAt := p.schema, p.triedAt
	p.mu.Unlock()
	if time.Since(triedAt) < readPause {
		return last, nil
	}
	current, err := p.read(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.triedAt = time.Now()
	if err != nil {
		return nil, err
	}
	p.schema, p.readAt = current, p.triedAt
	return current, nil
}
