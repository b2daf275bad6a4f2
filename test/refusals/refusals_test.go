package refusals_test

import (
	"fmt"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
	"github.com/kedify/argo-rollouts-plugin/test/refusals"
)

// TestInvalidConfiguration runs every row of both tables with a cluster and real traffic.
func TestInvalidConfiguration(t *testing.T) {
	s := newEnvironment(t)
	t.Run("objects", s.checkObjects)
	t.Run("duplicate hosts", s.checkDuplicateHosts)
	t.Run("calls", s.checkCalls)
	t.Run("a missing canary Service", s.checkUnknownService)
	t.Run("InterceptorRoute", s.checkInterceptorRoute)
}

// checkObjects runs the rows about objects, each in its own namespace, several in parallel.
func (s *environment) checkObjects(t *testing.T) {
	for i, row := range refusals.InvalidObjects() {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			s.checkObject(t, fmt.Sprintf("case-%d", i+1), row)
		})
	}
}

// checkCalls runs the rows about calls, which share one object.
func (s *environment) checkCalls(t *testing.T) {
	s.createCallObjects(t)
	for i, row := range routertest.InvalidCalls() {
		t.Run(row.Name, func(t *testing.T) { s.checkCall(t, row, fmt.Sprintf("neighbor-of-call-%d", i+1)) })
	}
}
