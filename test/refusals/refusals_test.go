package refusals_test

import (
	"fmt"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
	"github.com/kedify/argo-rollouts-plugin/test/refusals"
)

// TestRefusals takes every row of both tables to a cluster and real traffic.
func TestRefusals(t *testing.T) {
	s := newStage(t)
	t.Run("objects", s.badObjects)
	t.Run("duplicate hosts", s.duplicateHosts)
	t.Run("calls", s.badCalls)
	t.Run("a canary Service that is not there", s.unknownService)
}

// badObjects takes the rows about objects, each in a namespace of its own, several at a time.
func (s *stage) badObjects(t *testing.T) {
	for i, row := range refusals.BadObjects() {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			s.badObject(t, fmt.Sprintf("case-%d", i+1), row)
		})
	}
}

// badCalls takes the rows about calls, which are all about one object.
func (s *stage) badCalls(t *testing.T) {
	s.furnishCalls(t)
	for i, row := range routertest.InvalidCalls() {
		t.Run(row.Name, func(t *testing.T) { s.badCall(t, row, fmt.Sprintf("beside-call-%d", i+1)) })
	}
}
