package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// settled is how long the interceptor is left alone before its memory is read.
	settled = 5 * time.Second
	// weightsPerSecond and endpointsPerSecond are the changes during which memory is watched.
	weightsPerSecond, endpointsPerSecond = 10, 50
	// changers is how many changes may be under way at a time.
	changers = 4
)

// memory is what the interceptor took with the last number of objects, in MB of a million bytes: resident, and of that what is not backed by files.
type memory struct {
	Objects        int     `json:"objects"`
	Start          float64 `json:"startMB"`
	StartAnonymous float64 `json:"startAnonymousMB"`
	Churn          float64 `json:"churnMB"` // the highest of one reading a second
	ChurnAnonymous float64 `json:"churnAnonymousMB"`
	Seconds        float64 `json:"churnSeconds"`
	Changes        float64 `json:"changesPerSecond"`
}

// errNoField says that the kernel does not tell something.
var errNoField = errors.New("/proc/<pid>/status has no")

// measureMemory reads the memory of an interceptor that has just started, with one proxy, and then of one under changes.
func (s *stage) measureMemory(ctx context.Context) (memory, error) {
	if _, _, _, err := s.startProxies(ctx); err != nil {
		return memory{}, err
	}
	select {
	case <-ctx.Done():
		return memory{}, ctx.Err()
	case <-time.After(settled):
	}
	found := memory{Objects: len(s.apps), Seconds: s.churn.Seconds()}
	var err error
	if found.Start, found.StartAnonymous, err = s.resident(); err != nil || s.churn == 0 {
		return found, err
	}
	var changes atomic.Int64
	churning, end := context.WithTimeout(ctx, s.churn)
	defer end()
	group, inGroup := errgroup.WithContext(churning)
	group.Go(func() error {
		return s.every(inGroup, time.Second/weightsPerSecond, &changes, func(ctx context.Context) error {
			return setWeight(ctx, s.client, rand.N(len(s.apps)), rand.Uint32N(101)) //nolint:gosec // any will do
		})
	})
	group.Go(func() error {
		return s.every(inGroup, time.Second/endpointsPerSecond, &changes, func(ctx context.Context) error {
			service := nameOf(1+rand.N(len(s.apps)-1)) + sides()[rand.N(2)]                                   //nolint:gosec // any will do
			return setEndpoint(ctx, s.client, service, fmt.Sprintf("10.3.%d.%d", rand.N(250), 1+rand.N(250))) //nolint:gosec // any will do
		})
	})
	group.Go(func() error {
		for {
			select {
			case <-inGroup.Done():
				return nil
			case <-time.After(time.Second):
			}
			whole, anonymous, err := s.resident()
			if err != nil {
				return err
			}
			found.Churn, found.ChurnAnonymous = max(found.Churn, whole), max(found.ChurnAnonymous, anonymous)
		}
	})
	err = group.Wait()
	found.Changes = float64(changes.Load()) / s.churn.Seconds()
	return found, errors.Join(err, s.stopProxies())
}

// every makes a change at each interval until ctx ends, several at a time if they take longer.
func (*stage) every(ctx context.Context, interval time.Duration, count *atomic.Int64, change func(context.Context) error) error {
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(changers)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-inGroup.Done():
			return group.Wait()
		case <-ticker.C:
		}
		group.Go(func() error {
			switch err := change(inGroup); {
			case err == nil:
				count.Add(1)
			case inGroup.Err() == nil: // Else the end cut it off.
				return err
			}
			return nil
		})
	}
}

// resident reads what the interceptor's process has in memory, in MB of a million bytes (proc_pid_status(5)).
func (s *stage) resident() (whole, anonymous float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.interceptor.PID()))
	if err != nil {
		return 0, 0, err
	}
	field := func(name string) float64 {
		for line := range bytes.Lines(text) {
			rest, is := strings.CutPrefix(string(line), name+":")
			kilobytes, failed := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if is && failed == nil {
				return kilobytes * 1024 / 1e6
			}
		}
		err = errors.Join(err, fmt.Errorf("%w %s:\n%s", errNoField, name, text))
		return 0
	}
	whole, anonymous = field("VmRSS"), field("RssAnon")
	return whole, anonymous, err
}
