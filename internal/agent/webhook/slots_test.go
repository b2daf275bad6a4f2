package webhook

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
)

// TestSlotsAreFair has one address with many requests. A request of another address gets the next free slot.
func TestSlotsAreFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := newSlots(2, 2, 8)
		otherPod, apiServer := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.1")
		granted := make(chan string, 20)
		releases := map[string]chan func(){"other Pod": make(chan func(), 20), "API server": make(chan func(), 20)}
		start := func(name string, address netip.Addr) {
			go func() {
				if release, err := free.acquire(t.Context(), address); err == nil {
					granted <- name
					releases[name] <- release
				}
			}()
			synctest.Wait()
		}
		for range 6 {
			start("other Pod", otherPod)
		}
		start("API server", apiServer)
		for range 2 {
			if name := <-granted; name != "other Pod" {
				t.Errorf("the first slots went to the %s", name)
			}
		}
		(<-releases["other Pod"])()
		synctest.Wait()
		if name := <-granted; name != "API server" {
			t.Errorf("the next slot went to the %s", name)
		}
		(<-releases["API server"])()
		for range 4 { // All others follow.
			synctest.Wait()
			<-granted
			(<-releases["other Pod"])()
		}
	})
}

// TestSlotsPerAddress: one address never has more than its share, and free slots stay for others.
func TestSlotsPerAddress(t *testing.T) {
	t.Parallel()
	free, own := newSlots(4, 1, 1), netip.MustParseAddr("10.0.0.7")
	release, err := free.acquire(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := free.acquire(ended, own); !errors.Is(err, context.Canceled) {
		t.Errorf("a second slot of the address: %v", err)
	}
	other, err := free.acquire(t.Context(), netip.MustParseAddr("10.0.0.8"))
	if err != nil {
		t.Fatal(err)
	}
	other()
	release()
	if free.used != 0 || len(free.byAddress) != 0 || len(free.waiting) != 0 {
		t.Errorf("after the release of all: %d used, %v, %d wait", free.used, free.byAddress, len(free.waiting))
	}
}

// TestSlotsLimitWaiting: requests above the limit of waiting ones are rejected at once, those of others are not.
func TestSlotsLimitWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free, own := newSlots(1, 1, 3), netip.MustParseAddr("10.0.0.7")
		release, err := free.acquire(t.Context(), own)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 4)
		wait := func(address netip.Addr) {
			go func() {
				release, err := free.acquire(t.Context(), address)
				if err == nil {
					release()
				}
				done <- err
			}()
			synctest.Wait()
		}
		for range 3 {
			wait(own)
		}
		wait(netip.MustParseAddr("10.0.0.8"))
		if _, err := free.acquire(t.Context(), own); !errors.Is(err, errWaiting) {
			t.Errorf("a request above the limit: %v", err)
		}
		release()
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
