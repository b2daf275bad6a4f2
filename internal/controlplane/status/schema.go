package status

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
)

// schemaAge is the time after which a schema that lacks a field is read again.
const schemaAge = time.Minute

// statusSchema separates the fields of a status that the installed CustomResourceDefinition declares from the others.
// Server-side apply rejects a whole object for one field that the schema lacks, while other writes prune the field
// silently.
type statusSchema struct {
	published *crd.Published
	logger    *slog.Logger

	mu      sync.Mutex
	schema  *crd.Schema         // that missing is about
	missing map[string]struct{} // the fields that the schema lacks, each logged once
}

// split separates the fields of a status that the schema declares from the others. Every field counts as declared until
// the schema is known. One caller reads a schema that lacks fields and is older than schemaAge again; the other callers
// use the one that is known.
func (s *statusSchema) split(ctx context.Context, fields map[string]any) (inStatus, annotated map[string]any) {
	known, age := s.published.Last()
	if age >= schemaAge && s.hasMissing() {
		current, err := s.published.TryRefresh(ctx)
		if s.logFailure(ctx, err); err == nil {
			known = current
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !reflect.DeepEqual(known, s.schema) {
		s.schema, s.missing = known, map[string]struct{}{}
	}
	inStatus, annotated = map[string]any{}, map[string]any{}
	for name, value := range fields {
		if known == nil || known.Declares(map[string]any{name: value}) {
			inStatus[name] = value
		} else {
			annotated[name] = value
			s.logMissing(ctx, name)
		}
	}
	return inStatus, annotated
}

// hasMissing reports whether a status had fields that the schema lacks.
func (s *statusSchema) hasMissing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.missing) > 0
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

// logFailure logs a failed read of the schema.
func (s *statusSchema) logFailure(ctx context.Context, err error) {
	if err != nil {
		s.logger.WarnContext(ctx, "cannot read the schema of HTTPScaledObjects", "error", err)
	}
}

// refresh reads the schema, after any read in progress has ended, and reports whether it is known.
func (s *statusSchema) refresh(ctx context.Context) bool {
	current, err := s.published.Refresh(ctx)
	s.logFailure(ctx, err)
	return current != nil
}
