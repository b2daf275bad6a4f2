package server_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// TestReturningMemberRunsOnce removes a member and adds it again while its goroutine, which takes a second to end,
// still runs.
func TestReturningMemberRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var members atomic.Pointer[[]string]
		changed, running, most, begun := make(chan struct{}, 1), 0, 0, 0
		set := func(now ...string) {
			members.Store(&now)
			changed <- struct{}{}
			synctest.Wait()
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		members.Store(&[]string{"a"})
		go func() {
			defer close(ended)
			server.RunEach(ctx, func() []string { return slices.Clone(*members.Load()) }, changed,
				func(ctx context.Context, _ string) {
					begun, running = begun+1, running+1
					most = max(most, running)
					<-ctx.Done()
					time.Sleep(time.Second)
					running--
				})
		}()
		synctest.Wait()
		set()
		set("a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if begun != 2 || most != 1 || running != 1 {
			t.Errorf("%d goroutines began, %d run, and %d ran at a time", begun, running, most)
		}
		end()
		<-ended
		if running != 0 {
			t.Errorf("%d goroutines run after the end", running)
		}
	})
}
