package controllers

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// newTestCache returns a cache of IngressClasses without an API server.
func newTestCache() *kindCache {
	return &kindCache{
		kind:        networkingv1.SchemeGroupVersion.WithKind("IngressClass"),
		object:      &networkingv1.IngressClass{},
		subscribers: []chan event.GenericEvent{make(chan event.GenericEvent)}, done: make(chan struct{}),
	}
}

// busyCache is a cache that ends after its handler, like the real one.
type busyCache struct {
	cache.Cache

	handler func()
}

func (b busyCache) Start(ctx context.Context) error {
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		b.handler()
	}()
	<-ctx.Done()
	<-handled
	return nil
}

// TestKindCacheEnds has a change that no controller receives when the agent shuts down.
func TestKindCacheEnds(t *testing.T) {
	t.Parallel()
	k := newTestCache()
	k.cache = busyCache{handler: func() { k.notify(&networkingv1.IngressClass{}) }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Start(ctx); err != nil {
		t.Error(err)
	}
}

// logManager is a manager with a logger and without a mapping of kinds.
type logManager struct {
	manager.Manager

	logger logr.Logger
}

func (m logManager) GetLogger() logr.Logger { return m.logger }

func (m logManager) GetRESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

// TestKindCacheFailures has errors of a watch, before and after the objects have been read. What is logged and
// reported is true in both.
func TestKindCacheFailures(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "ingressclasses"}, "", errors.New("no RBAC rule"))
	for name, c := range map[string]struct {
		isRead       bool
		failures     []error
		log, problem string // parts of them; empty for none
	}{
		"forbidden":            {false, []error{forbidden}, "cannot be read", "no RBAC rule"},
		"no longer permitted":  {true, []error{forbidden}, "can no longer be watched", ""},
		"a broken watch":       {true, []error{io.EOF, io.EOF, io.EOF, io.EOF}, "", ""},
		"a slow API server":    {false, []error{io.EOF, io.EOF}, "", ""},
		"a broken API server":  {false, []error{io.EOF, io.EOF, io.EOF}, "cannot be read", "EOF"},
		"forbidden, then both": {false, []error{forbidden, io.EOF}, "cannot be read", "no RBAC rule"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []string
			k := newTestCache()
			k.manager = logManager{logger: funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})}
			hasSynced := toolscache.InformerSynced(func() bool { return c.isRead })
			k.hasSynced.Store(&hasSynced)
			close(k.done) // no one receives changes
			for _, err := range c.failures {
				k.failed(t.Context(), nil, err)
			}
			log := strings.Join(lines, "\n")
			if !strings.Contains(log, c.log) || c.log == "" && log != "" {
				t.Errorf("log %q, want %q", log, c.log)
			}
			problem := ""
			if reported := k.problem.Load(); reported != nil {
				problem = *reported
			}
			if !strings.Contains(problem, c.problem) || c.problem == "" && problem != "" {
				t.Errorf("problem %q, want %q", problem, c.problem)
			}
		})
	}
}

// TestIsUpdated has updates of watched objects. Those of a status affect no backend.
func TestIsUpdated(t *testing.T) {
	t.Parallel()
	object := func(change func(*apis.BackendTLSPolicy)) *apis.BackendTLSPolicy {
		policy := &apis.BackendTLSPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1, ResourceVersion: "1"}}
		change(policy)
		return policy
	}
	before := object(func(*apis.BackendTLSPolicy) {})
	for name, c := range map[string]struct {
		change func(*apis.BackendTLSPolicy)
		want   bool
	}{
		"status": {func(policy *apis.BackendTLSPolicy) { policy.ResourceVersion = "2" }, false},
		"labels": {func(policy *apis.BackendTLSPolicy) { policy.Labels = map[string]string{"a": "b"} }, false},
		"spec":   {func(policy *apis.BackendTLSPolicy) { policy.Generation = 2 }, true},
		"default class": {func(policy *apis.BackendTLSPolicy) {
			policy.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
		}, true},
	} {
		if got := isUpdated(before, object(c.change)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
