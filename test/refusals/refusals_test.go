package refusals_test

import (
	"fmt"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
	"github.com/kedify/argo-rollouts-plugin/test/refusals"
)

// TestInvalidConfiguration takes every row of both tables to a cluster and real traffic.
func TestInvalidConfiguration(t *testing.T) {
	s := newEnvironment(t)
	t.Run("objects", s.checkObjects)
	t.Run("duplicate hosts", s.checkDuplicateHosts)
	t.Run("calls", s.checkCalls)
	t.Run("a canary Service that is not there", s.checkUnknownService)
}

// checkObjects takes the rows about objects, each in a namespace of its own, several at a time.
func (s *environment) checkObjects(t *testing.T) {
	for i, row := range refusals.InvalidObjects() {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			s.checkObject(t, fmt.Sprintf("case-%d", i+1), row)
		})
	}
}

// checkCalls takes the rows about calls, which are all about one object.
func (s *environment) checkCalls(t *testing.T) {
	s.createCallObjects(t)
	for i, row := range routertest.InvalidCalls() {
		t.Run(row.Name, func(t *testing.T) { s.checkCall(t, row, fmt.Sprintf("beside-call-%d", i+1)) })
	}
}
