package kube

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := NewWaits()
		expect := func(when, key string, want time.Duration, wantFirst bool) {
			t.Helper()
			if waited, first := waits.Elapsed(key, ""); waited != want || first != wantFirst {
				t.Errorf("%s: %v, first: %v; want %v, %v", when, waited, first, want, wantFirst)
			}
		}
		expect("the first call", "web", 0, true)
		<-time.After(20 * time.Second)
		expect("a later one", "web", 20*time.Second, false)
		expect("another wait", "api", 0, true)
		waits.End("web")
		expect("after its end", "web", 0, true)
		<-time.After(forgetAfter + time.Second)
		expect("a new wait", "third", 0, true)
		expect("one that nobody ended", "api", 0, true)
	})
}
