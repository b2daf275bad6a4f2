package status

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
)

const (
	// schemaPause is the shortest time between two reads of the schema.
	schemaPause = time.Second
	// schemaAge is the time after which a schema that lacks a field is read again.
	schemaAge = time.Minute
)

// statusSchema is the schema of the status in the installed CustomResourceDefinition. It is read only after the API
// server rejected a status: server-side apply rejects a whole object for one field that the schema lacks, while other
// writes prune the field silently. The schema is read because the text of the rejection isn't an API.
type statusSchema struct {
	client  rest.Interface
	logger  *slog.Logger
	reading sync.Mutex // held during a read

	mu      sync.Mutex  // not held during a request
	schema  *crd.Schema // nil until it is known; every field counts as declared until then
	readAt  time.Time
	missing map[string]struct{} // the fields that the schema lacks, each logged once
}

// split separates the fields of a status that the schema declares from the others. One caller reads a schema that lacks
// fields and is older than schemaAge again; the other callers use the one that is known.
func (s *statusSchema) split(ctx context.Context, fields map[string]any) (inStatus, annotated map[string]any) {
	s.mu.Lock()
	isOld := len(s.missing) > 0 && time.Since(s.readAt) >= schemaAge
	s.mu.Unlock()
	if isOld && s.reading.TryLock() {
		s.refreshLocked(ctx)
		s.reading.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	inStatus, annotated = map[string]any{}, map[string]any{}
	for name, value := range fields {
		if s.schema == nil || s.schema.Declares(map[string]any{name: value}) {
			inStatus[name] = value
		} else {
			annotated[name] = value
			s.logMissing(ctx, name)
		}
	}
	return inStatus, annotated
}

// logMissing logs a field that the schema lacks, each field once. The caller holds mu.
func (s *statusSchema) logMissing(ctx context.Context, field string) {
	if _, isLogged := s.missing[field]; isLogged {
		return
	}
	s.missing[field] = struct{}{}
	s.logger.WarnContext(ctx,
		"the installed CustomResourceDefinition lacks a status field; writing it to an annotation",
		"definition", httpv1alpha1.Resource+"."+httpv1alpha1.Group, "field", "status."+field,
		"annotation", httpv1alpha1.AnnotationStatus,
		"fix", "install ours: kubectl apply --server-side --force-conflicts -f config/crd")
}

// refresh reads the schema, after any read in progress has ended, and reports whether it is known.
func (s *statusSchema) refresh(ctx context.Context) bool {
	s.reading.Lock()
	defer s.reading.Unlock()
	return s.refreshLocked(ctx)
}

// refreshLocked is refresh for a caller that holds reading. It returns the last result if that is younger than
// schemaPause.
func (s *statusSchema) refreshLocked(ctx context.Context) bool {
	s.mu.Lock()
	readAt, isKnown := s.readAt, s.schema != nil
	s.mu.Unlock()
	if time.Since(readAt) < schemaPause {
		return isKnown
	}
	current, err := crd.FieldSchema(ctx, s.client, httpv1alpha1.SchemeGroupVersion.WithKind(httpv1alpha1.Kind),
		"status")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readAt = time.Now()
	if err != nil {
		s.logger.WarnContext(ctx, "cannot read the schema of HTTPScaledObjects", "error", err)
		return false
	}
	if !reflect.DeepEqual(current, s.schema) {
		s.schema, s.missing = current, map[string]struct{}{}
	}
	return current != nil
}
