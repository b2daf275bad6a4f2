package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// weightsPerSecond and endpointsPerSecond are the rates of changes to other applications, spread over all.
	weightsPerSecond, endpointsPerSecond = 10, 50
	// changers is the number of concurrent changes of one kind.
	changers = 4
)

// amongChanges measures while other applications change, both in the API and, for those of the first fleet, on the bare
// server. It records the interceptor's memory meanwhile.
func (s *environment) amongChanges(ctx context.Context, measure func(context.Context) error, found *memory) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, inGroup := errgroup.WithContext(ctx)
	var changes atomic.Int64
	began := time.Now()
	group.Go(func() error {
		defer end()
		err := measure(inGroup)
		found.ChangesPerSecond = float64(changes.Load()) / time.Since(began).Seconds()
		return err
	})
	group.Go(func() error {
		return pace.Every(inGroup, time.Second/weightsPerSecond, changers, counted(&changes, s.anyWeight))
	})
	group.Go(func() error {
		return pace.Every(inGroup, time.Second/endpointsPerSecond, changers, counted(&changes, s.anyEndpoint))
	})
	group.Go(func() error {
		for pace.Wait(inGroup, time.Second) == nil {
			now, err := s.interceptorAt.Memory()
			if err != nil {
				return err
			}
			found.Busy, found.BusyAnonymous = max(found.Busy, now.Resident), max(found.BusyAnonymous, now.Anonymous)
		}
		return nil
	})
	return group.Wait()
}

// anyWeight changes the weight of an application that is not measured.
func (s *environment) anyWeight(ctx context.Context) error {
	i, form := s.randomOther()
	if i%s.Fleets == 0 {
		if err := s.bare.Push(resourcev3.ScopedRouteType, hostOf(i), form); err != nil {
			return err
		}
	}
	return setWeight(ctx, s.client, s.namespaceOf(i), i, rand.Uint32N(101)) //nolint:gosec // not security-relevant
}

// anyEndpoint moves the pod of an application that is not measured and belongs to the second half: the others keep
// answering.
func (s *environment) anyEndpoint(ctx context.Context) error {
	i, form := s.randomOther()
	i = max(i, s.Objects-i)
	side := sides()[rand.N(2)] //nolint:gosec // not security-relevant
	if i%s.Fleets == 0 {
		owner := model.Key{Namespace: s.namespaceOf(i), Name: nameOf(i)}
		name := translate.ClusterName(owner, model.Key{Namespace: owner.Namespace, Name: nameOf(i) + side})
		if err := s.bare.Push(resourcev3.EndpointType, name, form); err != nil {
			return err
		}
	}
	address := fmt.Sprintf("10.200.%d.%d", rand.N(250), 1+rand.N(250)) //nolint:gosec // not security-relevant
	return setEndpoint(ctx, s.client, s.namespaceOf(i), nameOf(i)+side, address)
}

// randomOther returns an application that is not measured, and a form of its resources.
func (s *environment) randomOther() (i, form int) {
	return 1 + rand.N(s.Objects-1), rand.N(2) //nolint:gosec // not security-relevant
}

// counted makes a change and counts it.
func counted(count *atomic.Int64, change func(context.Context) error) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		err := change(ctx)
		if err == nil {
			count.Add(1)
		}
		return err
	}
}
